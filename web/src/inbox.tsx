// The inbox of a session: messages that wait for the current run to end. They can be edited,
// moved and removed.
import { useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { patch, sessionPath } from './api';
import type { InboxItem } from './api-types';
import { Chip } from './chip';
import { IconButton } from './icon';
import { withdraw } from './session-actions';
import { plural } from './session-display';
import type { SessionStore } from './session-store';

/** When a message is given to the agent, by its queue mode, if it does not wait its turn. */
const MODES: Record<string, string> = {
  interrupt: 'next',
  collect: 'together with the next messages',
  steer: 'while the agent works',
  'steer-backlog': 'as soon as the agent can read it',
};

export function Inbox({ store }: { store: SessionStore }) {
  const items = store.inbox.value.filter(
    (item) => item.state === 'waiting' || item.position !== null,
  );
  const droppedCount = store.inbox.value.filter((item) => item.state === 'dropped').length;
  return (
    <>
      {items.length > 0 && (
        <section class="card inbox" aria-label="Inbox">
          <h2>
            Queued messages <Chip>{items.length}</Chip>
          </h2>
          <ol>
            {items.map((item, n) => (
              <Item
                key={item.id}
                store={store}
                item={item}
                position={n + 1}
                isLast={n === items.length - 1}
              />
            ))}
          </ol>
        </section>
      )}
      {droppedCount > 0 && (
        <p class="hint">
          {plural(droppedCount, 'message')} not accepted: too many messages were waiting.
        </p>
      )}
    </>
  );
}

interface ItemProps {
  store: SessionStore;
  item: InboxItem;
  /** 1 for the next message. */
  position: number;
  isLast: boolean;
}

function Item({ store, item, position, isLast }: ItemProps) {
  /** Null while the item is not being edited. */
  const [editedText, setEditedText] = useState<string | null>(null);
  const [busy, error, run] = useAction();
  const path = sessionPath(store.id, `/inbox/${item.id}`);
  const refresh = () => store.refresh('inbox', 'session');
  const move = (to: number) => run(() => patch(path, { position: to }).then(refresh));
  const save = () =>
    run(async () => {
      await patch(path, { text: editedText });
      setEditedText(null);
      await refresh();
    });
  return (
    <li>
      {editedText === null ? (
        <span class="inbox-text">{item.text}</span>
      ) : (
        <textarea
          aria-label="Edit message"
          rows={2}
          value={editedText}
          onInput={(event) => setEditedText(event.currentTarget.value)}
        />
      )}
      {MODES[item.mode] && <span class="hint">{MODES[item.mode]}</span>}
      {editedText === null ? (
        <span class="actions">
          <IconButton
            icon="up"
            label="Move up"
            disabled={busy || position === 1}
            onClick={() => move(position - 1)}
          />
          <IconButton
            icon="down"
            label="Move down"
            disabled={busy || isLast}
            onClick={() => move(position + 1)}
          />
          <IconButton
            icon="edit"
            label="Edit"
            disabled={busy}
            onClick={() => setEditedText(item.text)}
          />
          <IconButton
            icon="close"
            label="Withdraw"
            disabled={busy}
            onClick={() => run(() => withdraw(store.id, item, position).then(refresh))}
          />
        </span>
      ) : (
        <span class="actions">
          <button
            type="button"
            class="small primary"
            disabled={busy || !editedText.trim()}
            onClick={save}
          >
            Save
          </button>
          <button type="button" class="small" onClick={() => setEditedText(null)}>
            Discard
          </button>
        </span>
      )}
      <ErrorMessage text={error} />
    </li>
  );
}
