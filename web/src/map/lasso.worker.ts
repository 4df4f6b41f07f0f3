import { Grid } from "./grid";
import type { Asked, Found } from "./lasso";

let grid = new Grid(new Float32Array(0));

self.onmessage = ({ data }: MessageEvent<Asked>) => {
  if (data.positions) grid = new Grid(data.positions);
  const found: Found = { id: data.id, rows: grid.inside(data.shape) };
  self.postMessage(found, { transfer: [found.rows.buffer] });
};
