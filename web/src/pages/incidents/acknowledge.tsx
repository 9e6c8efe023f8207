import { useState } from "preact/hooks";
import { ApiError, post } from "../../api/client";
import { Failed } from "../../parts/states";
import { keepName, ownName, type Incident } from "./model";

/** Says that somebody has it: nobody is reminded any more. */
export function Acknowledge({ incident, onDone }: { incident: Incident; onDone: () => void }) {
  const [by, setBy] = useState(ownName);
  const [error, setError] = useState<ApiError | null>(null);
  const send = async () => {
    keepName(by);
    try {
      await post("/api/incidents/{id}/acknowledge", { path: { id: incident.id }, query: { by } });
      setError(null);
    } catch (e) {
      setError(e instanceof ApiError ? e : new ApiError("request", String(e)));
    }
    onDone();
  };
  return (
    <form
      class="row acknowledge"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label>
        You <input value={by} required maxLength={200} autocomplete="username" onInput={(event) => setBy(event.currentTarget.value)} />
      </label>
      <button type="submit">I have it</button>
      <span class="soft">stops the reminders; everybody who was told sees who has it</span>
      {error !== null && <Failed error={error} />}
    </form>
  );
}
