// Files that are attached to a message: read, shown as chips, sent as parts of their own. The
// transcript shows such a part as a chip too, instead of pouring the file into the text.
import { request } from './api';
import type { Message, Part } from './api-types';
import { useExpanded } from './collapsible';
import { Icon, IconButton } from './icon';
import { fenceFor } from './markdown';
import { MarkdownBlock } from './markdown-block';

/** Limits for attachments. The server accepts request bodies of at most 8 MB. */
const IMAGE_MAX_BYTES = 4_000_000;
const TEXT_MAX_BYTES = 400_000;
export const ATTACHMENTS_MAX = 8;

export type Attachment = { name: string } & (
  { kind: 'text'; text: string } | { kind: 'image'; mediaType: string; data: string }
);

interface ChipsProps {
  attachments: Attachment[];
  onRemove(index: number): void;
}

export function AttachmentChips({ attachments, onRemove }: ChipsProps) {
  if (attachments.length === 0) return null;
  return (
    <ul class="attachments" aria-label="Attachments">
      {attachments.map((attachment, n) => (
        <li key={n}>
          {attachment.kind === 'image' ? (
            <img
              class="thumbnail"
              src={`data:${attachment.mediaType};base64,${attachment.data}`}
              alt=""
            />
          ) : (
            <Icon name="file" />
          )}
          <span class="attachment-name">{attachment.name}</span>
          {attachment.kind === 'text' && <span class="hint">{sizeOf(attachment.text)}</span>}
          <IconButton
            icon="close"
            label={`Remove ${attachment.name}`}
            onClick={() => onRemove(n)}
          />
        </li>
      ))}
    </ul>
  );
}

function sizeOf(text: string): string {
  const lines = text.split('\n').length;
  return `${lines.toLocaleString()} ${lines === 1 ? 'line' : 'lines'}`;
}

export async function readAttachment(file: File): Promise<Attachment> {
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.type)) {
    const maxMb = IMAGE_MAX_BYTES / 1e6;
    if (file.size > IMAGE_MAX_BYTES) {
      throw new Error(`Cannot attach ${file.name}: images can be at most ${maxMb} MB.`);
    }
    return { kind: 'image', name: file.name, mediaType: file.type, data: await base64(file) };
  }
  if (file.size > TEXT_MAX_BYTES) {
    const maxKb = TEXT_MAX_BYTES / 1000;
    throw new Error(`Cannot attach ${file.name}: text files can be at most ${maxKb} kB.`);
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    return { kind: 'text', name: file.name, text };
  } catch {
    throw new Error(
      `Cannot attach ${file.name}: it is not UTF-8 text or an image (PNG, JPEG, GIF, WebP).`,
    );
  }
}

async function base64(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = '';
  // In chunks, because the number of arguments of a call is limited.
  for (let n = 0; n < bytes.length; n += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(n, n + 0x8000));
  }
  return btoa(binary);
}

/** The parts of a message: its text, then one part per file. */
export function messageContent(text: string, attachments: Attachment[]): unknown[] {
  const parts = attachments.map((one) =>
    one.kind === 'text'
      ? { type: 'text', text: fencedFile(one.name, one.text) }
      : { type: 'image', media_type: one.mediaType, data: one.data },
  );
  return [...(text.trim() ? [{ type: 'text', text: text.trim() }] : []), ...parts];
}

/** The files and images of a stored message, to be sent again. */
export async function storedAttachments(message: Message): Promise<unknown[]> {
  const parts = message.content.map(async (part) => {
    if (part.type !== 'image') return attachedFile(part) ? part : null;
    const image = await (await request('GET', `/blobs/${part.blob}`)).blob();
    return { type: 'image', media_type: part.media_type, data: await base64(image) };
  });
  return (await Promise.all(parts)).filter((part) => part !== null);
}

function fencedFile(name: string, text: string): string {
  const fence = fenceFor(text);
  const extension = name.includes('.') ? name.split('.').at(-1) : '';
  return `${name}:\n${fence}${extension}\n${text.replace(/\n$/, '')}\n${fence}`;
}

const FILE = /^([^\n]{1,400}):\n(`{3,})[^\n`]*\n([\s\S]*)\n\2$/;

/** A part that was made from a text file; null for other parts. */
export function attachedFile(part: Part): { name: string; block: string; size: string } | null {
  const match = part.type === 'text' ? FILE.exec(part.text) : null;
  if (!match || part.type !== 'text') return null;
  const [, name, , text] = match;
  return { name: name!, block: part.text.slice(name!.length + 2), size: sizeOf(text!) };
}

/** An attached file in the transcript. A click shows its text. */
export function FileChip({
  file,
  id,
}: {
  file: NonNullable<ReturnType<typeof attachedFile>>;
  id: string;
}) {
  const [open, toggle] = useExpanded(`file:${id}`);
  return (
    <div class="file-chip">
      <button type="button" class="small" aria-expanded={open} onClick={toggle}>
        <Icon name="file" /> {file.name} <span class="hint">{file.size}</span>
      </button>
      {open && <MarkdownBlock source={file.block} name={`file:${id}`} />}
    </div>
  );
}
