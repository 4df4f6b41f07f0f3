type Scale = (value: number) => number;

/** An SVG path through the points that have a value; a gap begins a new piece. */
export function path(xs: number[], ys: (number | null)[], x: Scale, y: Scale): string {
  let pen = "M";
  let out = "";
  for (let i = 0; i < xs.length; i++) {
    const value = ys[i];
    if (value === null || value === undefined) pen = "M";
    else {
      out += `${pen}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
  }
  return out;
}

/** A closed band between two lines, one for each piece without gaps. */
export function band(xs: number[], low: (number | null)[], high: (number | null)[], x: Scale, y: Scale): string {
  let out = "";
  for (let start = 0; start < xs.length; start++) {
    if (low[start] === null || high[start] === null) continue;
    let end = start;
    while (end < xs.length && low[end] !== null && high[end] !== null) end++;
    const upper = path(xs.slice(start, end), high.slice(start, end), x, y);
    const lower = path(xs.slice(start, end).reverse(), low.slice(start, end).reverse(), x, y);
    out += `${upper}${lower.replace("M", "L")}Z`;
    start = end;
  }
  return out;
}

/** The value at a place of two lists that rise together, straight between their points and flat beyond them. */
export function between(xs: number[], ys: number[], x: number): number {
  const after = xs.findIndex((each) => each >= x);
  if (after < 0) return ys.at(-1) ?? 0;
  if (after === 0) return ys[0];
  const wide = xs[after] - xs[after - 1];
  return ys[after - 1] + (wide > 0 ? (x - xs[after - 1]) / wide : 1) * (ys[after] - ys[after - 1]);
}
