// Choosing a working directory from a list under the roots of the server.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { get } from './api';
import { Icon } from './icon';

interface Directory {
  name: string;
  path: string;
  repository: boolean;
}

interface Listing {
  path: string | null;
  parent: string | null;
  directories: Directory[];
  more: boolean;
}

interface Props {
  value: string;
  onChoose: (path: string) => void;
  close: () => void;
}

export function DirectoryDialog({ value, onChoose, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="directories" aria-labelledby="directories-title" onClose={close}>
      <h2 id="directories-title">Working directory</h2>
      <DirectoryList
        start={value}
        choose={(path) => {
          onChoose(path);
          dialog.current?.close();
        }}
        cancel={() => dialog.current?.close()}
      />
    </dialog>
  );
}

interface ListProps {
  start: string;
  choose: (path: string) => void;
  cancel: () => void;
}

function DirectoryList({ start, choose, cancel }: ListProps) {
  const [listing, setListing] = useState<Listing | null>(null);
  const [busy, error, run] = useAction();
  const list = useRef<HTMLUListElement>(null);
  const fetchListing = (path: string | null) =>
    get<Listing>(`/directories${path ? `?under=${encodeURIComponent(path)}` : ''}`);
  const open = (path: string | null) =>
    run(async () => {
      setListing(await fetchListing(path));
      list.current?.querySelector('button')?.focus();
    });
  // The given directory may not exist: then the roots are listed.
  useEffect(
    () =>
      run(async () =>
        setListing(await fetchListing(start.trim() || null).catch(() => fetchListing(null))),
      ),
    [],
  );
  return (
    <>
      <p class="mono place">{listing?.path ?? 'Roots of this server'}</p>
      <ErrorMessage text={error} />
      <ul ref={list} class="directory-list" aria-label="Directories">
        {listing && listing.path !== null && (
          <li>
            <button type="button" disabled={busy} onClick={() => open(listing.parent)}>
              <Icon name="up" /> {listing.parent ?? 'Roots'}
            </button>
          </li>
        )}
        {listing?.directories.map((directory) => (
          <li key={directory.path}>
            <button type="button" disabled={busy} onClick={() => open(directory.path)}>
              <Icon name="chevron" /> {directory.name}
              {directory.repository && <span class="hint"> repository</span>}
            </button>
          </li>
        ))}
      </ul>
      {listing?.directories.length === 0 && <p class="empty">No directories inside.</p>}
      {listing?.more && <p class="hint">Only the first 500 are listed.</p>}
      <div class="buttons">
        <button type="button" onClick={cancel}>
          Cancel
        </button>
        <button
          type="button"
          class="primary"
          disabled={listing === null || listing.path === null}
          onClick={() => listing?.path && choose(listing.path)}
        >
          Use this directory
        </button>
      </div>
    </>
  );
}
