import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Over the page, until Escape or a click beside it. Closed by the browser itself, so that the focus goes back to where it was. */
export function Dialog({
  class: looks,
  label,
  onClose,
  onKeyDown,
  children,
}: {
  class: string;
  label: string;
  onClose: () => void;
  onKeyDown?: (event: KeyboardEvent) => void;
  children: (close: () => void) => ComponentChildren;
}) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  const close = () => box.current?.close();
  return (
    <dialog
      ref={box}
      class={`dialog ${looks}`}
      aria-label={label}
      onClose={onClose}
      onClick={(event) => event.target === box.current && close()}
      onKeyDown={onKeyDown}
    >
      {children(close)}
    </dialog>
  );
}
