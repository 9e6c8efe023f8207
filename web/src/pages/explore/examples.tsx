// Where to begin: questions that have an answer on most installations.
import { Card } from "../../parts/card";

const EXAMPLES: [string, string][] = [
  ["How busy are each workload's GPUs?", 'trilens:workload_gpu_utilization:ratio{over="mean"}'],
  ["Which GPUs are hottest?", "topk(10, trilens:gpu_temperature:celsius)"],
  ["What does each cluster burn an hour?", "trilens:cluster_cost_rate:per_hour"],
  ["How much power does each machine draw?", "sum by (Hostname) (trilens:gpu_power:watts)"],
  ["How does training go?", "avg by (job_name) (training_loss)"],
  ["How much GPU memory is in use?", "sum by (team) (trilens:gpu_memory_used:bytes)"],
  ["What is slow to scrape?", "topk(5, scrape_duration_seconds)"],
  ["Which alerts are on?", 'count by (alertname, severity) (ALERTS{alertstate="firing"})'],
];

export function Examples({ onPick }: { onPick: (query: string) => void }) {
  return (
    <Card title="To begin with" note="each runs at once">
      <ul class="examples">
        {EXAMPLES.map(([text, query]) => (
          <li key={query}>
            <button type="button" onClick={() => onPick(query)}>
              <span>{text}</span>
              <code>{query}</code>
            </button>
          </li>
        ))}
      </ul>
      <p class="soft">
        Names complete while you type: <kbd>Tab</kbd> takes the first, <kbd>Ctrl Space</kbd> shows all,{" "}
        <kbd>Enter</kbd> runs, <kbd>Shift Enter</kbd> begins a line.
      </p>
    </Card>
  );
}
