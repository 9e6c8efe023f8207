// A field for PromQL: colours behind the text, completion at the caret, faults marked where they stand.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { labelOffers, metricOffers, valueOffers } from "./catalog";
import { fitting, spanOffers, wantedAt, wordOffers, type Offer, type Wanted } from "./completion";
import { look, tokens } from "./tokens";

export interface Fault {
  at: number; // in UTF-16 units, as the field counts
  text: string;
}

interface EditorProps {
  value: string;
  fault: Fault | null;
  onChange: (value: string) => void;
  onRun: (value: string) => void;
}

interface Open {
  from: number;
  offers: Offer[];
  chosen: number; // -1 until somebody moves in the list: Enter runs the query then
}

const OFFERS_PX = 420; // as wide as the list is in explore.css
const BELOW_PX = 6;

async function offersFor(wanted: Wanted): Promise<Offer[]> {
  switch (wanted.kind) {
    case "name":
      return [...(await metricOffers()), ...wordOffers()];
    case "label":
      return labelOffers(wanted.metrics);
    case "value":
      return valueOffers(wanted.label, wanted.metric, wanted.quote);
    case "span":
      return spanOffers();
    case "none":
      return [];
  }
}

export function Editor({ value, fault, onChange, onRun }: EditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const place = useRef<HTMLSpanElement>(null);
  const asked = useRef(0);
  const [open, setOpen] = useState<Open | null>(null);
  const [at, setAt] = useState({ left: 0, top: 0 });

  useLayoutEffect(() => {
    const mark = place.current;
    const box = field.current;
    if (open === null || mark === null || box === null) return;
    const room = Math.max(0, box.clientWidth - OFFERS_PX);
    setAt({ left: Math.min(mark.offsetLeft, room), top: mark.offsetTop + mark.offsetHeight + BELOW_PX });
  }, [open?.from, value]);
  useLayoutEffect(() => {
    const box = field.current;
    if (box === null) return;
    box.style.height = "auto";
    box.style.height = `${box.scrollHeight}px`;
  }, [value]);
  useEffect(() => {
    void metricOffers().catch(() => undefined); // so that they are there by the first letter
  }, []);

  const offer = async (text: string, caret: number, isAsked = false) => {
    const turn = ++asked.current;
    const wanted = wantedAt(text, caret);
    const isQuiet = wanted.kind === "name" && wanted.typed === "" && !isAsked;
    if (wanted.kind === "none" || isQuiet) {
      setOpen(null);
      return;
    }
    const found = await offersFor(wanted).catch(() => []);
    if (turn !== asked.current) return;
    const fits = fitting(found, wanted.typed);
    const isComplete = fits.length === 1 && fits[0]?.label === wanted.typed;
    setOpen(fits.length === 0 || isComplete ? null : { from: wanted.from, offers: fits, chosen: -1 });
  };
  const close = () => {
    asked.current += 1;
    setOpen(null);
  };
  const take = (one: Offer) => {
    const box = field.current;
    if (box === null || open === null) return;
    const after = value.slice(box.selectionEnd);
    const isCall = one.text.endsWith("()") && after.startsWith("(");
    const text = isCall ? one.text.slice(0, -2) : one.text;
    box.setRangeText(text, open.from, box.selectionEnd, "end");
    const caret = box.selectionEnd - (isCall ? 0 : one.back);
    box.setSelectionRange(caret, caret);
    onChange(box.value);
    close();
    box.focus();
  };
  const pressed = (event: KeyboardEvent) => {
    const box = field.current;
    if (box === null) return;
    if (open !== null && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      const many = open.offers.length;
      setOpen({ ...open, chosen: open.chosen < 0 && step < 0 ? many - 1 : (open.chosen + step + many) % many });
      return;
    }
    const chosen = open?.offers[event.key === "Tab" ? Math.max(0, open.chosen) : open.chosen];
    if (event.key === "Escape" && open !== null) {
      event.preventDefault();
      close();
    } else if ((event.key === "Tab" || event.key === "Enter") && !event.shiftKey && chosen !== undefined) {
      event.preventDefault();
      take(chosen);
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      close();
      onRun(box.value);
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      void offer(box.value, box.selectionStart, true);
    }
  };

  return (
    <div class="editor">
      <pre class="editor-colours" aria-hidden="true">
        <Coloured query={value} fault={fault} mark={open?.from ?? null} place={place} />
        {"\n"}
      </pre>
      <textarea
        ref={field}
        rows={1}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        data-shortcut="/"
        aria-label="A query in PromQL"
        aria-autocomplete="list"
        aria-haspopup="listbox"
        aria-controls={open === null ? undefined : "editor-offers"}
        aria-activedescendant={open !== null && open.chosen >= 0 ? `editor-offer-${open.chosen}` : undefined}
        aria-invalid={fault !== null}
        aria-describedby={fault === null ? undefined : "editor-fault"}
        placeholder="A metric, or a question such as: avg by (team) (trilens:gpu_utilization:ratio)"
        value={value}
        onInput={(event) => {
          const box = event.currentTarget;
          onChange(box.value);
          void offer(box.value, box.selectionStart);
        }}
        onKeyDown={pressed}
        onBlur={close}
        onClick={close}
      />
      {open !== null && <Offers open={open} at={at} take={take} />}
    </div>
  );
}

function Offers({ open, at, take }: { open: Open; at: { left: number; top: number }; take: (one: Offer) => void }) {
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.children[open.chosen]?.scrollIntoView({ block: "nearest" });
  }, [open.chosen]);
  const shown = open.offers[Math.max(0, open.chosen)];
  return (
    <div class="offers" style={{ left: `${at.left}px`, top: `${at.top}px` }}>
      <ul id="editor-offers" role="listbox" aria-label="Completions" ref={list}>
        {open.offers.map((one, i) => (
          <li
            key={`${one.note} ${one.label}`}
            id={`editor-offer-${i}`}
            role="option"
            aria-selected={i === open.chosen}
            onMouseDown={(event) => {
              event.preventDefault(); // the field keeps the focus
              take(one);
            }}
          >
            <code>{one.label}</code> <small>{one.note}</small>
          </li>
        ))}
      </ul>
      {shown !== undefined && shown.help !== "" && <p class="offers-help">{shown.help}</p>}
      <p class="offers-keys" aria-hidden="true">
        <kbd>Tab</kbd> takes the first, <kbd>↑</kbd> <kbd>↓</kbd> choose, <kbd>Enter</kbd> runs
      </p>
    </div>
  );
}

interface ColouredProps {
  query: string;
  fault: Fault | null;
  mark: number | null;
  place: { current: HTMLSpanElement | null };
}

function Coloured({ query, fault, mark, place }: ColouredProps) {
  const every = tokens(query);
  const drawn = [];
  for (const [i, token] of every.entries()) {
    const next = every.slice(i + 1, i + 3).find((one) => one.kind !== "space");
    if (mark === token.at) drawn.push(<span key="mark" ref={place} />);
    const isFault = fault !== null && token.at <= fault.at && fault.at < token.at + token.text.length;
    drawn.push(
      <span key={token.at} class={`${look(token, next)} ${isFault ? "q-fault" : ""}`}>
        {token.text}
      </span>,
    );
    if (mark !== null && mark > token.at && mark <= token.at + token.text.length && every[i + 1]?.at !== mark) {
      drawn.push(<span key="mark" ref={place} />);
    }
  }
  if (mark === 0 && every.length === 0) drawn.push(<span key="mark" ref={place} />);
  if (fault !== null && fault.at >= query.length) drawn.push(<span key="end" class="q-fault"> </span>);
  return <>{drawn}</>;
}
