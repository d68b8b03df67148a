// Icons as inline SVG, and buttons and links that show only an icon.
import type { JSX } from 'preact';
import markUrl from './icon.svg';
import { hrefTo } from './route';

/** Outlines in a 16 by 16 box. */
const PATHS = {
  plus: 'M8 3v10M3 8h10',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3 3',
  send: 'M8 13V3M3.5 7.5 8 3l4.5 4.5',
  stop: 'M4 4h8v8H4z',
  chevron: 'm6 4 4 4-4 4',
  fork: 'M5 3v10M5 10c0-4 6-2 6-6',
  tree: 'M4 3v10M4 8h5M4 13h5M11 8h1M11 13h1',
  check: 'm3 8 3.5 3.5L13 5',
  sun: 'M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13',
  moon: 'M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z',
  contrast: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 2v12',
  attach: 'm13 7.5-5 5a3.2 3.2 0 0 1-4.6-4.6l5.5-5.4a2.1 2.1 0 0 1 3 3L6.6 11',
  close: 'm4 4 8 8M12 4l-8 8',
  file: 'M4 2h5l3 3v9H4zM9 2v3h3',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  down: 'M8 3v10M3.5 8.5 8 13l4.5-4.5',
  up: 'M8 13V3M3.5 7.5 8 3l4.5 4.5',
  edit: 'M10.5 3.5 13 6l-7 7H3.5v-2.5z',
  back: 'M10 3 5 8l5 5',
  archive: 'M2.5 3.5h11v3h-11zM3.5 6.5v6.5h9V6.5M6.5 9h3',
  copy: 'M5.5 5.5h7v8h-7zM3.5 10.5v-8h7',
  retry: 'M3 8a5 5 0 1 1 1.6 3.7M3 4.5V8h3.5',
  rewind: 'M13 13V8.5a3 3 0 0 0-3-3H3.5M6.5 2.5l-3 3 3 3',
  help: 'M6 6a2 2 0 1 1 2.6 1.9c-.4.2-.6.5-.6 1v.4M8 12h.01',
  info: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 7.5V11M8 5h.01',
  share: 'M8 10V2.5M5 5.5l3-3 3 3M3.5 8.5v5h9v-5',
  trash: 'M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.5 8.5h6l.5-8.5M7 7v3.5M9 7v3.5',
  compare: 'M3 3h4v10H3zM9 3h4v10H9z',
  compact: 'M8 1.5V6M5.5 3.8 8 6.2l2.5-2.4M8 14.5V10M5.5 12.2 8 9.8l2.5 2.4M3 8h10',
  pin: 'M5.5 2.5h5M6.5 2.5v4L4 9.5h8L9.5 6.5v-4M8 9.5V14',
};

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }) => (
  <svg
    class={name === 'more' ? 'icon dots' : 'icon'}
    viewBox="0 0 16 16"
    aria-hidden="true"
    focusable="false"
  >
    <path d={PATHS[name]} />
  </svg>
);

/** The label is the accessible name and the tooltip. */
export function IconButton({
  icon,
  label,
  ...rest
}: { icon: IconName; label: string } & JSX.IntrinsicElements['button']) {
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  );
}

/** Shown only where the list of sessions is a view of its own. */
export const LinkToList = () => (
  <a class="icon-button only-narrow" href={hrefTo.list} aria-label="All sessions">
    <Icon name="back" />
  </a>
);

/** The mark of ctx. It is part of the script: the browser requests the file for the tab only. */
export const BrandMark = ({ size }: { size: number }) => (
  <img src={markUrl} alt="" width={size} height={size} />
);
