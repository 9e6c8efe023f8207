// What the colours and patterns of the map mean, in words and with how many there are.
import { count } from "../../format/numbers";
import type { Painting, Pattern } from "./looks";

/** `isDivided`: of GPUs that MIG divides, each part is a field of the map. */
export function MapLegend({ painting, isDivided }: { painting: Painting; isDivided: boolean }) {
  return (
    <div class="fleet-legend">
      {painting.scale !== null && (
        <span class="fleet-scale">
          {painting.scale.low}
          <span class="fleet-ramp" aria-hidden="true">
            {painting.scale.colours.map((colour) => (
              <span key={colour} style={{ backgroundColor: colour }} />
            ))}
          </span>
          {painting.scale.high}
        </span>
      )}
      <ul class="legend">
        {painting.legend.map((one) => (
          <li key={one.word}>
            <Swatch colour={one.colour} pattern={one.pattern} /> {one.word} <b>{count(one.count)}</b>
          </li>
        ))}
        {isDivided && painting.legend.length > 0 && <li>of GPUs divided by MIG, each part counts</li>}
      </ul>
    </div>
  );
}

const PX = 12;

function Swatch({ colour, pattern }: { colour: string; pattern: Pattern }) {
  const ink = colour.startsWith("--") ? `var(${colour})` : colour;
  const line = { stroke: "var(--raised)", "stroke-width": 1.5, fill: "none" };
  return (
    <svg class="fleet-swatch" width={PX} height={PX} viewBox={`0 0 ${PX} ${PX}`} aria-hidden="true">
      {pattern === "hollow" ? (
        <rect x="0.75" y="0.75" width={PX - 1.5} height={PX - 1.5} fill="none" stroke={ink} stroke-width="1.5" />
      ) : (
        <rect width={PX} height={PX} fill={ink} />
      )}
      {pattern === "cross" && <path d={`M0 0L${PX} ${PX}M0 ${PX}L${PX} 0`} {...line} />}
      {pattern === "stripes" && <path d={`M0 ${PX}L${PX} 0M0 ${PX / 2}L${PX / 2} 0M${PX / 2} ${PX}L${PX} ${PX / 2}`} {...line} />}
      {pattern === "dot" && <circle cx={PX / 2} cy={PX / 2} r="2.5" fill="var(--raised)" />}
    </svg>
  );
}
