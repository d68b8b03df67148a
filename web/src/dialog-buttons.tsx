// Buttons whose dialogs are loaded when they are first used.
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { Session } from './api-types';
import { IconButton } from './icon';
import { OnDemand } from './on-demand';

/** Whether the export dialog of the open session is shown. */
export const isExportOpen = signal(false);

export function ExportButton({ session }: { session: Session }) {
  const close = () => void (isExportOpen.value = false);
  useEffect(() => close, []);
  return (
    <>
      <IconButton
        icon="share"
        label="Export and share"
        onClick={() => (isExportOpen.value = true)}
      />
      {isExportOpen.value && (
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
