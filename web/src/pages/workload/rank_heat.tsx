// Step times of ranks over time: who is slower than the others stands out as a line.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { useParam } from "../../core/route";
import { count } from "../../format/numbers";
import { clock, duration } from "../../format/time";
import { Card } from "../../parts/card";
import { Heat } from "../../parts/heat";
import { Tabs } from "../../parts/inputs";
import { Doubts } from "../../parts/states";
import { SYNC, type Ranks } from "./model";

interface RankHeatProps {
  ranks: Ranks;
  warnings: string[];
  over: { fromMs: number; toMs: number } | undefined; // what the charts show
  chosen: string;
  onChoose: (rank: number | null) => void;
}

const SLOW = 1.15; // times the median: what is worth a word
const LOW = 0.85;
const LEAST_HIGH = 1.3;
const MOST_HIGH = 2.5;
const NAMED = 5;

export function RankHeat({ ranks, warnings, over, chosen, onChoose }: RankHeatProps) {
  const [order, setOrder] = useParam("order", "rank");
  const rows = useMemo(() => inOrder(ranks, order), [ranks, order]);
  const values = useMemo(() => rows.map((row) => shares(ranks, row)), [ranks, rows]);
  const high = useMemo(() => {
    const worst = Math.max(0, ...ranks.factor.map((one) => one ?? 0));
    return Math.min(MOST_HIGH, Math.max(LEAST_HIGH, worst));
  }, [ranks]);
  const slow = rowsByFactor(ranks).filter((row) => (ranks.factor[row] ?? 0) >= SLOW);
  const chosenRow = rows.findIndex((row) => String(ranks.ranks[row]) === chosen);
  const what = ranks.measure === "own" ? "what each rank needed itself, without waiting for others" : "whole steps";

  const tell = (at: number, column: number): string => {
    const row = rows[at] ?? 0;
    const ms = ranks.cells_ms[row * ranks.columns + column];
    const median = ranks.median_ms[column];
    const when = ranks.from_ms + column * ranks.step_ms;
    const time =
      ms == null
        ? "no step was read here"
        : `${duration(ms / 1000)}${median == null || median === 0 ? "" : `, ${(ms / median).toFixed(2)} times the median of ${duration(median / 1000)}`}`;
    return [`rank ${ranks.ranks[row]} at ${clock(when, true)}`, time, placeOf(ranks, row, column)].join("\n");
  };
  return (
    <Card
      title="Ranks over time"
      note={`${what}; ${count(ranks.ranks.length)} of ${count(ranks.ranks_known)} ranks, ${count(ranks.steps_read)} of ${count(ranks.steps_known)} steps`}
      actions={
        <Tabs
          label="Order of the ranks"
          value={order}
          choices={[
            { value: "rank", label: "By rank" },
            { value: "worst", label: "Slowest first" },
          ]}
          onChange={setOrder}
        />
      }
    >
      {warnings.length > 0 && <Doubts lines={warnings} />}
      <p class="rank-verdict">
        {slow.length === 0 ? (
          <>No rank is much slower than the others: the slowest needs {(ranks.factor[rowsByFactor(ranks)[0] ?? 0] ?? 1).toFixed(2)} times the median.</>
        ) : (
          <>
            Slower than the others:{" "}
            {slow.slice(0, NAMED).map((row) => (
              <button
                key={ranks.ranks[row]}
                type="button"
                class="rank-pick"
                aria-pressed={String(ranks.ranks[row]) === chosen}
                onClick={() => onChoose(String(ranks.ranks[row]) === chosen ? null : (ranks.ranks[row] ?? null))}
              >
                rank {ranks.ranks[row]} on {nodeOf(ranks, row, ranks.worst_column[row] ?? 0) ?? "an unknown node"}: {(ranks.factor[row] ?? 0).toFixed(2)} times the median
              </button>
            ))}
            {slow.length > NAMED && <span class="soft">and {count(slow.length - NAMED)} more</span>}
          </>
        )}
      </p>
      <div class="rank-map">
        <div class="rank-ends soft" aria-hidden="true">
          <span>{order === "worst" ? "slowest" : `rank ${ranks.ranks[0] ?? ""}`}</span>
          <span>{order === "worst" ? "fastest" : `rank ${ranks.ranks.at(-1) ?? ""}`}</span>
        </div>
        <WithCursor place={placedOver(ranks, over)}>
          <Heat
            label={`Step times of ${ranks.ranks.length} ranks. ${slow.length === 0 ? "None stands out." : `Rank ${ranks.ranks[slow[0] ?? 0]} stands out.`}`}
            values={values}
            low={LOW}
            high={high}
            tell={tell}
            onPick={(at) => onChoose(ranks.ranks[rows[at] ?? 0] ?? null)}
            chosenRow={chosenRow < 0 ? undefined : chosenRow}
            height={Math.min(420, Math.max(96, rows.length * (rows.length <= 32 ? 14 : 4)))}
          />
        </WithCursor>
      </div>
      <div class="heat-scale soft">
        <span>{LOW} times the median</span>
        <span class="heat-ramp" aria-hidden="true" />
        <span>{high.toFixed(2)} times</span>
        <span>· empty: no step</span>
        {chosen !== "" && (
          <button type="button" onClick={() => onChoose(null)}>
            Let rank {chosen} go
          </button>
        )}
      </div>
    </Card>
  );
}

/** Its columns are wider than the slots of the charts, and begin a little earlier: laid over the same time. */
function placedOver(ranks: Ranks, over: RankHeatProps["over"]): { left: string; width: string } {
  if (over === undefined) return { left: "0", width: "100%" };
  const span = over.toMs - over.fromMs;
  const share = (ms: number) => `${(ms / span) * 100}%`;
  return { left: share(ranks.from_ms - over.fromMs), width: share(ranks.columns * ranks.step_ms) };
}

function rowsByFactor(ranks: Ranks): number[] {
  return ranks.ranks.map((_, row) => row).sort((a, b) => (ranks.factor[b] ?? 0) - (ranks.factor[a] ?? 0));
}

function inOrder(ranks: Ranks, order: string): number[] {
  return order === "worst" ? rowsByFactor(ranks) : ranks.ranks.map((_, row) => row);
}

/** Of one row, each cell as a share of what was usual at that time. */
function shares(ranks: Ranks, row: number): (number | null)[] {
  const first = row * ranks.columns;
  return ranks.median_ms.map((median, column) => {
    const ms = ranks.cells_ms[first + column];
    return ms == null || median == null || median === 0 ? null : ms / median;
  });
}

/** Which of its lives a column is in; a restarted job is elsewhere. */
function lifeAt(ranks: Ranks, column: number): number {
  return ranks.column_attempt[column] ?? ranks.attempts.length - 1;
}

function nodeOf(ranks: Ranks, row: number, column: number): string | null {
  return ranks.nodes[lifeAt(ranks, column)]?.[row] ?? null;
}

function placeOf(ranks: Ranks, row: number, column: number): string {
  const life = lifeAt(ranks, column);
  const pod = ranks.pods[life]?.[row];
  const gpu = ranks.gpus[life]?.[row];
  const node = nodeOf(ranks, row, column);
  return [pod && `pod ${pod}`, node && `node ${node}`, gpu && gpu.slice(0, 16)].filter(Boolean).join("\n");
}

// What uPlot calls on all that share a cursor; its types have it on charts alone.
interface Follower {
  pub: (type: string, from: uPlot, x: number, y: number, width: number) => void;
}

/** The cursor of the charts goes on through what is inside, and back. Nothing is drawn anew when it moves. */
function WithCursor({ place, children }: { place: { left: string; width: string }; children: ComponentChildren }) {
  const line = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const together = uPlot.sync(SYNC);
    let ownWidth = 0;
    const resized = new ResizeObserver(([one]) => {
      ownWidth = one?.contentRect.width ?? 0;
    });
    if (box.current !== null) resized.observe(box.current);
    const follower: Follower = {
      pub: (_type, _from, x, _y, width) => {
        const element = line.current;
        if (element === null) return;
        element.hidden = !(x >= 0 && width > 0);
        element.style.transform = `translateX(${(x / width) * ownWidth}px)`;
      },
    };
    const me = follower as unknown as uPlot;
    together.sub(me);
    return () => {
      together.unsub(me);
      resized.disconnect();
    };
  }, []);
  const moved = (event: MouseEvent) => {
    const frame = box.current?.getBoundingClientRect();
    const plot = uPlot.sync(SYNC).plots.find((one) => one.over !== undefined);
    if (frame === undefined || plot === undefined) return;
    plot.setCursor({ left: ((event.clientX - frame.left) / frame.width) * plot.over.clientWidth, top: 4 });
  };
  return (
    <div class="under-charts" ref={box} onMouseMove={moved}>
      <div style={{ marginLeft: place.left, width: place.width }}>{children}</div>
      <div class="heat-cursor" ref={line} hidden />
    </div>
  );
}
