// A button that copies a text to the clipboard.
import { useState } from 'preact/hooks';
import { IconButton } from './icon';

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      // The browser denies clipboard access here. The text can still be selected.
    }
  };
  return (
    <IconButton
      icon={copied ? 'check' : 'copy'}
      label={copied ? 'Copied' : label}
      onClick={() => void copy()}
    />
  );
}
