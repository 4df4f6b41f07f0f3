/** Rows sorted into square cells of the map, to find those near a point or inside a shape. */
export class Grid {
  private start: Uint32Array;
  private rows: Uint32Array;
  readonly side: number;

  constructor(private positions: Float32Array) {
    const n = positions.length >> 1;
    const side = Math.max(1, Math.min(512, Math.floor(Math.sqrt(n / 4))));
    this.side = side;
    const cell = new Uint32Array(n);
    const start = new Uint32Array(side * side + 1);
    for (let i = 0; i < n; i++) {
      cell[i] = this.index(positions[2 * i + 1]) * side + this.index(positions[2 * i]);
      start[cell[i] + 1]++;
    }
    for (let c = 0; c < side * side; c++) start[c + 1] += start[c];
    const at = start.slice();
    this.rows = new Uint32Array(n);
    for (let i = 0; i < n; i++) this.rows[at[cell[i]]++] = i;
    this.start = start;
  }

  private index(value: number): number {
    return Math.max(0, Math.min(this.side - 1, Math.floor(((value + 1) / 2) * this.side)));
  }

  /** The row nearest to a point, no farther than `reach`; -1 where there is none. */
  nearest(x: number, y: number, reach: number): number {
    let best = -1;
    let closest = reach * reach;
    this.within(x - reach, y - reach, x + reach, y + reach, (row) => {
      const dx = this.positions[2 * row] - x, dy = this.positions[2 * row + 1] - y;
      const far = dx * dx + dy * dy;
      if (far <= closest) [best, closest] = [row, far];
    });
    return best;
  }

  /**
   * The rows inside a closed shape given as x0, y0, x1, y1, …, by the even-odd rule, in order. Rows are asked one by
   * one only in cells near the border; of the others whole stretches are inside or not.
   */
  inside(shape: number[]): Uint32Array {
    let [left, bottom, right, top] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < shape.length; i += 2) {
      left = Math.min(left, shape[i]);
      right = Math.max(right, shape[i]);
      bottom = Math.min(bottom, shape[i + 1]);
      top = Math.max(top, shape[i + 1]);
    }
    const found = new Uint32Array(this.rows.length);
    const crossed = this.crossed(shape);
    let n = 0;
    for (let j = this.index(bottom); j <= this.index(top); j++) {
      let inside: boolean | null = null; // of the cells since the last that the border crosses
      for (let i = this.index(left); i <= this.index(right); i++) {
        const cell = j * this.side + i;
        const border = crossed[cell] || i === 0 || j === 0 || i === this.side - 1 || j === this.side - 1; // rows beyond [-1, 1] are kept at the edge
        if (border) inside = null;
        else inside ??= contains(shape, this.middle(i), this.middle(j));
        if (inside === false) continue;
        for (let k = this.start[cell]; k < this.start[cell + 1]; k++) {
          const row = this.rows[k];
          if (inside || contains(shape, this.positions[2 * row], this.positions[2 * row + 1])) found[n++] = row;
        }
      }
    }
    return found.slice(0, n).sort();
  }

  /** The cells that the border of a shape runs through, and those beside them. */
  private crossed(shape: number[]): Uint8Array {
    const cells = new Uint8Array(this.side * this.side);
    const step = 1 / this.side; // half a cell
    for (let i = 0, from = shape.length - 2; i < shape.length; from = i, i += 2) {
      const [x, y, dx, dy] = [shape[from], shape[from + 1], shape[i] - shape[from], shape[i + 1] - shape[from + 1]];
      const steps = Math.ceil(Math.max(Math.abs(dx), Math.abs(dy)) / step) || 1;
      for (let at = 0; at <= steps; at++) {
        const [column, row] = [this.index(x + (dx * at) / steps), this.index(y + (dy * at) / steps)];
        for (let b = Math.max(0, row - 1); b <= Math.min(this.side - 1, row + 1); b++)
          for (let a = Math.max(0, column - 1); a <= Math.min(this.side - 1, column + 1); a++) cells[b * this.side + a] = 1;
      }
    }
    return cells;
  }

  private middle(index: number): number {
    return (2 * index + 1) / this.side - 1;
  }

  within(left: number, bottom: number, right: number, top: number, visit: (row: number) => void): void {
    for (let j = this.index(bottom); j <= this.index(top); j++) {
      const from = this.start[j * this.side + this.index(left)];
      const to = this.start[j * this.side + this.index(right) + 1];
      for (let k = from; k < to; k++) visit(this.rows[k]);
    }
  }
}

export function contains(shape: number[], x: number, y: number): boolean {
  let inside = false;
  const n = shape.length;
  for (let i = 0, j = n - 2; i < n; j = i, i += 2) {
    const yi = shape[i + 1], yj = shape[j + 1];
    if (yi > y !== yj > y && x < ((shape[j] - shape[i]) * (y - yi)) / (yj - yi) + shape[i]) inside = !inside;
  }
  return inside;
}
