// A button that opens a menu of labelled actions.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon, IconButton, type IconName } from './icon';

export interface MenuItem {
  icon: IconName;
  label: string;
  /** The shortcut, shown beside the label. */
  keys?: string;
  run(): void;
  /** Set apart from the items above, in the color of a warning. */
  isDangerous?: boolean;
}

interface Props {
  label: string;
  items: MenuItem[];
  /** Further items. */
  children?: ComponentChildren;
}

export function Menu({ label, items, children }: Props) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>('[role="menuitem"]')?.focus();
    const closeOutside = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener('pointerdown', closeOutside);
    return () => removeEventListener('pointerdown', closeOutside);
  }, [open]);
  const close = () => {
    setOpen(false);
    box.current?.querySelector('button')?.focus();
  };
  return (
    <div
      class="menu"
      ref={box}
      onKeyDown={(event) => {
        if (!open) return;
        if (event.key === 'Escape') close();
        else if (!moveFocus(box.current!, event.key)) return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <IconButton
        icon="more"
        label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      />
      {open && (
        <div class="menu-items" role="menu" aria-label={label} onClick={close}>
          {items.map((item) => (
            <button
              key={item.label}
              type="button"
              role="menuitem"
              class={item.isDangerous ? 'danger' : ''}
              onClick={item.run}
            >
              <Icon name={item.icon} />
              <span>{item.label}</span>
              {item.keys && <kbd>{item.keys}</kbd>}
            </button>
          ))}
          {children}
        </div>
      )}
    </div>
  );
}

function moveFocus(box: HTMLElement, key: string): boolean {
  const items = [...box.querySelectorAll<HTMLElement>('[role="menuitem"]')];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[key];
  if (to === undefined) return false;
  items[(to + items.length) % items.length]?.focus();
  return true;
}
