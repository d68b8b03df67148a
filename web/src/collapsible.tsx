// Content that is collapsed until the user opens it.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Icon } from './icon';

/** Which sections the user opened or closed. Kept outside the components, because a row that is
 * scrolled out of view is removed from the page. */
const openByName = new Map<string, boolean>();
const OPEN_STATES_MAX = 5000;

export function useExpanded(name: string): [open: boolean, toggle: () => void] {
  const [open, setOpen] = useState(openByName.get(name) ?? false);
  const toggle = () => {
    if (openByName.size > OPEN_STATES_MAX) openByName.clear();
    openByName.set(name, !open);
    setOpen(!open);
  };
  return [open, toggle];
}

/** Expands a truncated text. */
export const ShowAll = (props: { count: number; of: string; toggle(): void }) => (
  <button type="button" class="link" onClick={props.toggle}>
    Show all {props.count.toLocaleString()} {props.of}
  </button>
);

interface Props {
  /** Identifies the section when its row is drawn again. */
  name: string;
  title: ComponentChildren;
  children: () => ComponentChildren;
  class?: string;
}

export function Collapsible({ name, title, children, class: className }: Props) {
  const [open, toggle] = useExpanded(name);
  return (
    <div class={`collapsible ${className ?? ''} ${open ? 'open' : ''}`}>
      <button type="button" class="collapsible-title" aria-expanded={open} onClick={toggle}>
        <Icon name="chevron" />
        {title}
      </button>
      {open && <div class="collapsible-body">{children()}</div>}
    </div>
  );
}
