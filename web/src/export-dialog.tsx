// Export and share: a session as a file that can be read elsewhere.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { request, sessionPath } from './api';
import type { Session } from './api-types';
import { sessionName } from './session-names';
import { download } from './usage-data';

/** `to` is null for a bundle, which ctx imports again. */
interface Format {
  to: 'html' | 'markdown' | 'jsonl' | null;
  name: string;
  about: string;
  ending: string;
}

const FORMATS: Format[] = [
  {
    to: 'html',
    name: 'Web page to share',
    about: 'One HTML file without scripts from elsewhere. Any browser shows it offline.',
    ending: 'html',
  },
  { to: 'markdown', name: 'Markdown', about: 'For documents and issues.', ending: 'md' },
  {
    to: 'jsonl',
    name: 'JSON lines',
    about: 'One message per line, for programs.',
    ending: 'jsonl',
  },
  {
    to: null,
    name: 'Bundle',
    about: 'Everything, verified by hash. ctx import reads it on another machine.',
    ending: 'ctx',
  },
];

interface Props {
  session: Session;
  close: () => void;
}

export function ExportDialog({ session, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="export" aria-labelledby="export-title" onClose={close}>
      <h2 id="export-title">Export and share</h2>
      <ExportForm session={session} close={() => dialog.current?.close()} />
    </dialog>
  );
}

function ExportForm({ session, close }: Props) {
  const [format, setFormat] = useState<Format>(FORMATS[0]!);
  const [redact, setRedact] = useState(true);
  const [busy, error, run] = useAction();
  const save = () =>
    run(async () => {
      const query = new URLSearchParams();
      if (format.to) query.set('to', format.to);
      if (format.to && redact) query.set('redact', 'true');
      const text = query.toString();
      const response = await request(
        'GET',
        sessionPath(session.id, `/export${text && `?${text}`}`),
      );
      const blob = await response.blob();
      download(`${fileName(session)}.${format.ending}`, blob.type, blob);
      close();
    });
  return (
    <>
      <fieldset class="choices">
        <legend class="visually-hidden">Format</legend>
        {FORMATS.map((one) => (
          <label key={one.name} class="card choice">
            <input
              type="radio"
              name="export-format"
              checked={format === one}
              onChange={() => setFormat(one)}
            />
            <span>
              {one.name}
              <span class="hint">{one.about}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <label class="check">
        <input
          type="checkbox"
          checked={redact && format.to !== null}
          disabled={format.to === null}
          onChange={(event) => setRedact(event.currentTarget.checked)}
        />{' '}
        Replace keys, tokens and passwords
      </label>
      <p class="hint">
        {format.to === null
          ? 'A bundle keeps every byte.'
          : 'Read the file before you share it: not every secret can be recognized.'}
      </p>
      <ErrorMessage text={error} />
      <div class="buttons">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button type="button" class="primary" disabled={busy} onClick={save}>
          {busy ? 'Exporting…' : 'Download'}
        </button>
      </div>
    </>
  );
}

/** A file name without characters that systems refuse. */
function fileName(session: Session): string {
  const name = sessionName(session)
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-+|-+$/g, '');
  return name.slice(0, 60) || 'session';
}
