// Where each GPU stands on the map: nodes are blocks that flow in rows, groups stand below each other.
import { plural } from "../../format/numbers";
import type { Group } from "./gpus";

export interface Block {
  node: number;
  x: number;
  y: number;
  columns: number;
  gpus: number[];
}

export interface Layout {
  blocks: Block[];
  heads: { title: string; note: string; x: number; y: number }[];
  cell: number;
  height: number;
  hasNames: boolean;
}

const SIZES = [22, 20, 18, 16, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4];
const HEAD = 22;
const NAME = 13;
const NAMES_FROM = 14; // of a cell: below this, names would not fit over their nodes

const ABREAST = [1, 2, 3, 4]; // groups beside each other: many small ones, such as racks
const ASIDE = 28;

/** With cells as large as fit into the height, or the smallest. */
export function layoutOf(groups: Group[], width: number, height: number): Layout {
  let found: Layout | null = null;
  for (const cell of SIZES) {
    for (const abreast of ABREAST) {
      if (abreast > 1 && (groups.length < 2 * abreast || width / abreast < LEAST_PX)) break;
      const next = laid(groups, width, cell, abreast);
      if (next.height <= height) return next;
      if (found === null || next.height < found.height) found = next;
    }
  }
  return found ?? { blocks: [], heads: [], cell: 4, height: 0, hasNames: false };
}

const LEAST_PX = 240;

function laid(groups: Group[], width: number, cell: number, abreast: number): Layout {
  const layout: Layout = { blocks: [], heads: [], cell, height: 0, hasNames: cell >= NAMES_FROM };
  const room = (width - ASIDE * (abreast - 1)) / abreast;
  let y = 0;
  for (let first = 0; first < groups.length; first += abreast) {
    const ends = groups
      .slice(first, first + abreast)
      .map((group, i) => placeGroup(layout, group, i * (room + ASIDE), y, room));
    y = Math.max(y, ...ends);
  }
  layout.height = Math.ceil(y);
  return layout;
}

/** Where it ends. */
function placeGroup(layout: Layout, group: Group, left: number, top: number, room: number): number {
  const { cell, hasNames } = layout;
  const gap = cell >= 10 ? 8 : cell >= 7 ? 5 : 3;
  let y = top;
  if (group.title !== "") {
    layout.heads.push({ title: group.title, note: noteOf(group), x: left, y: y + HEAD - 7 });
    y += HEAD;
  }
  let x = 0;
  let tallest = 0;
  for (const { node, gpus } of group.nodes) {
    const columns = columnsFor(gpus.length);
    const wide = columns * cell;
    if (x > 0 && x + wide > room) {
      x = 0;
      y += tallest + gap;
      tallest = 0;
    }
    layout.blocks.push({ node, x: left + x, y: y + (hasNames ? NAME : 0), columns, gpus });
    x += wide + gap;
    tallest = Math.max(tallest, Math.ceil(gpus.length / columns) * cell + (hasNames ? NAME : 0));
  }
  return y + tallest + gap;
}

function noteOf(group: Group): string {
  return `${plural(group.nodes.length, "node")}, ${plural(group.gpus, "GPU")}`;
}

function columnsFor(gpus: number): number {
  return gpus <= 4 ? Math.max(1, gpus) : gpus <= 16 ? Math.ceil(gpus / 2) : Math.ceil(gpus / 4);
}

/** Which GPU is at a point; null between nodes. */
export function gpuAt(layout: Layout, x: number, y: number): number | null {
  const { cell } = layout;
  for (const block of layout.blocks) {
    if (x < block.x || y < block.y || x >= block.x + block.columns * cell) continue;
    const place = Math.floor((y - block.y) / cell) * block.columns + Math.floor((x - block.x) / cell);
    const gpu = block.gpus[place];
    if (gpu !== undefined && y < block.y + Math.ceil(block.gpus.length / block.columns) * cell) return gpu;
  }
  return null;
}

export function placesOf(layout: Layout): Map<number, { x: number; y: number }> {
  const places = new Map<number, { x: number; y: number }>();
  for (const block of layout.blocks) {
    for (const [i, gpu] of block.gpus.entries()) {
      places.set(gpu, {
        x: block.x + (i % block.columns) * layout.cell,
        y: block.y + Math.floor(i / block.columns) * layout.cell,
      });
    }
  }
  return places;
}
