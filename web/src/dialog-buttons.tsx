// Buttons whose dialogs are loaded when they are first used.
import { useState } from 'preact/hooks';
import type { Session } from './api-types';
import { IconButton } from './icon';
import { OnDemand } from './on-demand';

export function ExportButton({ session }: { session: Session }) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <IconButton icon="share" label="Export and share" onClick={() => setOpen(true)} />
      {isOpen && (
        <OnDemand show={(more) => <more.ExportDialog session={session} close={close} />} />
      )}
    </>
  );
}

interface DirectoryProps {
  value: string;
  onChoose: (path: string) => void;
}

/** Opens the list of directories under the roots of the server. */
export function DirectoryButton({ value, onChoose }: DirectoryProps) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <button type="button" class="small" onClick={() => setOpen(true)}>
        Choose…<span class="visually-hidden"> a working directory</span>
      </button>
      {isOpen && (
        <OnDemand
          show={(more) => <more.DirectoryDialog value={value} onChoose={onChoose} close={close} />}
        />
      )}
    </>
  );
}
