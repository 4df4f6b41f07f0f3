/** Data coordinates in [-1, 1] to pixels of the pane, and back; both axes have one scale. `home` is the zoom that shows all rows. */
export interface Camera { x: number; y: number; zoom: number; home: number; width: number; height: number }

// pixels that the tools above, the legend below and the edges take from the pane
const ABOVE = 52, BELOW = 56, BESIDE = 20;

const scale = (camera: Camera): number => (Math.min(camera.width, camera.height) / 2) * camera.zoom;

export function toScreen(camera: Camera, x: number, y: number): [number, number] {
  const k = scale(camera);
  return [camera.width / 2 + (x - camera.x) * k, camera.height / 2 - (y - camera.y) * k];
}

export function toData(camera: Camera, px: number, py: number): [number, number] {
  const k = scale(camera);
  return [camera.x + (px - camera.width / 2) / k, camera.y - (py - camera.height / 2) / k];
}

export const perPixel = (camera: Camera): number => 1 / scale(camera);

/** Zoom by a factor so that the data under a pixel stays under it. */
export function zoomAt(camera: Camera, factor: number, px: number, py: number): Camera {
  const zoom = Math.min(200 * camera.home, Math.max(0.5 * camera.home, camera.zoom * factor));
  const [x, y] = toData(camera, px, py);
  const [nx, ny] = toData({ ...camera, zoom }, px, py);
  return { ...camera, zoom, x: camera.x + x - nx, y: camera.y + y - ny };
}

export function pan(camera: Camera, dx: number, dy: number): Camera {
  const k = perPixel(camera);
  return { ...camera, x: camera.x - dx * k, y: camera.y + dy * k };
}

/** The camera that shows a box of data as large as the pane allows. */
export function fit(camera: Camera, box: [number, number, number, number]): Camera {
  const [left, bottom, right, top] = box;
  const side = Math.min(camera.width, camera.height);
  const free = [Math.max(40, camera.width - 2 * BESIDE), Math.max(40, camera.height - ABOVE - BELOW)];
  const zoom = Math.min((2 * free[0]) / (side * Math.max(1e-4, right - left)), (2 * free[1]) / (side * Math.max(1e-4, top - bottom)));
  const down = ((ABOVE - BELOW) / 2) * perPixel({ ...camera, zoom });
  return { ...camera, x: (left + right) / 2, y: (bottom + top) / 2 + down, zoom };
}

export function bounds(positions: Float32Array, rows?: ArrayLike<number>): [number, number, number, number] {
  let [left, bottom, right, top] = [Infinity, Infinity, -Infinity, -Infinity];
  const n = rows ? rows.length : positions.length >> 1;
  for (let i = 0; i < n; i++) {
    const row = rows ? rows[i] : i;
    const x = positions[2 * row], y = positions[2 * row + 1];
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < bottom) bottom = y;
    if (y > top) top = y;
  }
  return n ? [left, bottom, right, top] : [-1, -1, 1, 1];
}
