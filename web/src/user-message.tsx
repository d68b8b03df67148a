// A message of the user in the transcript, with its files, and the editor to send it again.
import { useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import type { Message } from './api-types';
import { attachedFile, FileChip } from './attachments';
import { Icon, IconButton } from './icon';
import { BlobImage } from './image';
import { UserText } from './markdown-block';
import { messageText } from './row-model';
import type { TurnActions } from './row-view';
import { humanize } from './session-display';
import { ClockTime } from './time';
import { formatDuration } from './turn-usage';

interface UserMessageProps {
  message: Message;
  depth: number;
  actions: TurnActions | null;
}

export function UserMessage({ message, depth, actions }: UserMessageProps) {
  const { source } = message;
  const [isEdited, setEdited] = useState(false);
  const files = message.content.map(attachedFile);
  const text = messageText({ ...message, content: message.content.filter((_, n) => !files[n]) });
  const isPerson = !source || source === 'human';
  return (
    <article class="user" aria-label="Your message">
      <header class="author">
        <h2>{isPerson ? 'You' : humanize(source)}</h2>
        <ClockTime at={message.created_at} />
        {message.delivered_at && (
          <span>waited {formatDuration(message.created_at, message.delivered_at)}</span>
        )}
        {actions && isPerson && message.turn && !isEdited && (
          <IconButton
            icon="edit"
            label="Edit and resend as a branch"
            onClick={() => setEdited(true)}
          />
        )}
      </header>
      {isEdited ? (
        <EditedMessage
          text={text}
          resend={(changed) => actions!.resend(depth, message, changed)}
          onEnd={() => setEdited(false)}
        />
      ) : (
        <UserText text={text} name={message.id} />
      )}
      {files.map((file, n) => file && <FileChip key={n} file={file} id={`${message.id}:${n}`} />)}
      {message.content.map(
        (part) =>
          part.type === 'image' && (
            <BlobImage key={part.blob} blob={part.blob} mediaType={part.media_type} />
          ),
      )}
    </article>
  );
}

interface EditedMessageProps {
  text: string;
  resend(text: string): Promise<unknown>;
  onEnd(): void;
}

/** The editor of a sent message. Sending it opens a branch; the original stays as it is. */
function EditedMessage({ text, resend, onEnd }: EditedMessageProps) {
  const [changed, setChanged] = useState(text);
  const [busy, error, run] = useAction();
  const send = () => run(() => resend(changed).then(onEnd));
  return (
    <div class="edited-message">
      <textarea
        aria-label="Edited message"
        dir="auto"
        rows={Math.min(12, changed.split('\n').length + 1)}
        value={changed}
        ref={(field) => {
          if (field && !field.dataset.focused) {
            field.dataset.focused = 'yes';
            field.focus();
          }
        }}
        onInput={(event) => setChanged(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onEnd();
          else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send();
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      <div class="buttons">
        <button
          type="button"
          class="small primary"
          disabled={busy || !changed.trim()}
          onClick={send}
        >
          <Icon name="fork" /> Send as a branch
        </button>
        <button type="button" class="small" onClick={onEnd}>
          Discard
        </button>
      </div>
      <ErrorMessage text={error} />
    </div>
  );
}
