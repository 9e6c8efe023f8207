import { useState } from "preact/hooks";
import { ApiError, get, post } from "../../api/client";
import { useAnswer } from "../../api/use";
import { useParam } from "../../core/route";
import { duration, moment, spanMs } from "../../format/time";
import { Badge } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Select } from "../../parts/inputs";
import { Empty, Failed, Shown } from "../../parts/states";
import { keepName, ownName, type Silence } from "./model";

const EVERY_MS = 10_000;
const LENGTHS = ["30m", "1h", "2h", "4h", "8h", "1d", "3d", "1w"];

/** Makes a silence; `matchers` is one on each line. */
export function SilenceForm({ matchers = "", onDone }: { matchers?: string; onDone: (silence: Silence) => void }) {
  const [written, setWritten] = useState(matchers);
  const [length, setLength] = useState("2h");
  const [author, setAuthor] = useState(ownName);
  const [comment, setComment] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [isSending, setSending] = useState(false);
  const lines = written.split("\n").map((line) => line.trim()).filter(Boolean);
  const send = async () => {
    setSending(true);
    keepName(author);
    try {
      const body = { matchers: lines, to_ms: Date.now() + (spanMs(length) ?? 0), author, comment };
      const { data } = await post("/api/silences", { body });
      setError(null);
      setComment("");
      onDone(data as Silence);
    } catch (e) {
      setError(e instanceof ApiError ? e : new ApiError("request", String(e)));
    } finally {
      setSending(false);
    }
  };
  return (
    <form
      class="silence-form"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label class="is-whole">
        What nobody is to be told of, a label on each line
        <textarea rows={Math.max(3, lines.length)} value={written} placeholder={'node="gpu-1"\nalertname=~"Gpu.*"'} onInput={(event) => setWritten(event.currentTarget.value)} />
      </label>
      <label>
        You
        <input value={author} required maxLength={200} onInput={(event) => setAuthor(event.currentTarget.value)} />
      </label>
      <label>
        Why
        <input value={comment} required maxLength={2000} placeholder="new fans" onInput={(event) => setComment(event.currentTarget.value)} />
      </label>
      <Select label="For" value={length} choices={LENGTHS.map((value) => ({ value, label: duration((spanMs(value) ?? 0) / 1000) }))} onChange={setLength} />
      <button type="submit" disabled={isSending || lines.length === 0}>
        Silence
      </button>
      {error !== null && <Failed error={error} />}
    </form>
  );
}

export function SilencesTab() {
  const [all, setAll] = useParam("all");
  const live = useAnswer(`silences ${all}`, (signal) => get("/api/silences", { query: { all: all || undefined } }, signal), { everyMs: EVERY_MS });
  return (
    <div class="grid">
      <Card
        title="Silences"
        class="span-8"
        actions={
          <label>
            <input type="checkbox" checked={all !== ""} onChange={(event) => setAll(event.currentTarget.checked ? "true" : "")} /> also those that are over
          </label>
        }
      >
        <Shown live={live} what="Reading silences">
          {(silences) => <Silences silences={silences} onChange={live.reload} />}
        </Shown>
      </Card>
      <Card title="Add a silence" class="span-4">
        <SilenceForm onDone={live.reload} />
      </Card>
    </div>
  );
}

const TONES = { active: "info", pending: "muted", expired: "muted" } as const;

export function Silences({ silences, onChange }: { silences: Silence[]; onChange: () => void }) {
  const [error, setError] = useState<ApiError | null>(null);
  const expire = async (id: string) => {
    try {
      await post("/api/silences/{id}/expire", { path: { id } });
      setError(null);
    } catch (e) {
      setError(e instanceof ApiError ? e : new ApiError("request", String(e)));
    }
    onChange();
  };
  if (silences.length === 0) {
    return <Empty what="Nothing is silenced: everybody is told of everything that concerns them." todo="A page of an incident has Silence, with its labels filled in." />;
  }
  return (
    <>
      {error !== null && <Failed error={error} />}
      <ul class="silences">
        {silences.map((one) => (
          <li key={one.id}>
            <Badge tone={TONES[one.state as keyof typeof TONES] ?? "plain"}>{one.state}</Badge>
            <div>
              <code class="wraps">{one.matchers.join(" ")}</code>
              <div class="soft">
                {one.state === "pending" && `from ${moment(one.from_ms)} `}until {moment(one.to_ms)} · {one.author}: {one.comment}
              </div>
            </div>
            {one.state !== "expired" && (
              <button type="button" onClick={() => void expire(one.id)} aria-label={`End now the silence of ${one.matchers.join(" ")}`}>
                End now
              </button>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}
