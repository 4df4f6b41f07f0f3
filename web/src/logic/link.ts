import type { ColourBy, Filter } from "../protocol";

/** What a link carries: what is looked at, and the number of the last edit when it was made. */
export interface Place {
  tab?: string; colour?: ColourBy; source?: string; row?: number; filter?: Filter; find?: string; like?: number; at?: number;
}

const COLOURS = ["label", "source", "uncertain", "hand", "novote"];
const FILTERS = ["all", "uncertain", "conflict", "novote", "wrong", "hand", "near", "voted", "flipped"];
const TABS = ["sources", "rows", "why", "source", "draft", "label", "code", "history"];

export function writePlace(place: Place): string {
  const fields = Object.entries(place).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  return fields.length ? "#" + new URLSearchParams(fields.map(([key, value]) => [key, String(value)])).toString() : "";
}

/** Reads a link; whatever it does not know or cannot be, it leaves out. */
export function readPlace(fragment: string): Place {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const known = (key: string, values: string[]) => {
    const value = fields.get(key);
    return value !== null && values.includes(value) ? value : undefined;
  };
  const whole = (key: string) => {
    const value = fields.get(key);
    return value !== null && /^\d{1,12}$/.test(value) ? Number(value) : undefined;
  };
  return {
    tab: known("tab", TABS),
    colour: known("colour", COLOURS) as ColourBy | undefined,
    source: fields.get("source")?.slice(0, 200) || undefined,
    row: whole("row"),
    filter: known("filter", FILTERS) as Filter | undefined,
    find: fields.get("find")?.slice(0, 400) || undefined,
    like: whole("like"),
    at: whole("at"),
  };
}
