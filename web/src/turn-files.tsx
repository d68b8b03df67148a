// "3 files changed" below a turn, with the diff of each file.
import type { Turn } from './api-types';
import { Collapsible, useExpanded } from './collapsible';
import { changesText } from './file-diff';
import { Icon } from './icon';
import { plural } from './session-display';
import { Diff } from './tool-call';
import { turnChanges } from './turn-changes';

export function TurnFiles({ turn }: { turn: Turn }) {
  const [open, toggle] = useExpanded(`files:${turn.id}`);
  const changes = turnChanges(turn);
  if (changes.length === 0) return null;
  const all = changes.flatMap((change) => change.lines);
  return (
    <div class={`turn-files ${open ? 'open' : ''}`}>
      <button type="button" class="small" aria-expanded={open} onClick={toggle}>
        <Icon name="chevron" /> {plural(changes.length, 'file')} changed{' '}
        <span class="hint">{changesText(all)}</span>
      </button>
      {open && (
        <ul aria-label="Changed files">
          {changes.map(({ path, lines }) => (
            <li key={path}>
              <Collapsible
                name={`file:${turn.id}:${path}`}
                title={
                  <>
                    <code>{path}</code>
                    <span class="hint">{changesText(lines)}</span>
                  </>
                }
              >
                {() => <Diff lines={lines} />}
              </Collapsible>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
