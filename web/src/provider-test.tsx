// A button that sends one question to a provider and shows the result.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { testProvider, type ProviderDraft, type TestResult } from './setup-data';

interface Props {
  name: string;
  /** A provider that is not written yet. */
  draft: ProviderDraft | null;
  /** Id of the element that says what is missing. The button is disabled then. */
  describedBy?: string;
}

export function ProviderTest({ name, draft, describedBy }: Props) {
  const shown = useRef<HTMLDivElement>(null);
  const [result, setResult] = useState<TestResult | null>(null);
  const [busy, error, run] = useAction();
  const start = () => {
    setResult(null);
    run(async () => setResult(await testProvider(name, draft)));
  };
  useEffect(() => {
    if (result || error) shown.current?.scrollIntoView({ block: 'nearest' });
  }, [result, error]);
  return (
    <>
      <button
        type="button"
        class="small"
        disabled={busy || describedBy !== undefined}
        aria-describedby={describedBy}
        onClick={start}
      >
        {busy ? 'Testing…' : 'Test'}
        <span class="visually-hidden"> {name}</span>
      </button>
      <div class="test-result" role="status" ref={shown}>
        {result && <Outcome name={name} result={result} />}
        <ErrorMessage text={error} />
      </div>
    </>
  );
}

function Outcome({ name, result }: { name: string; result: TestResult }) {
  if (!result.ok) {
    return (
      <p class="error-message">
        {result.message}
        {result.hint && ` (${result.hint})`}
      </p>
    );
  }
  const seconds = (ms: number | null | undefined) =>
    (ms ?? 0) < 100 ? 'less than 0.1 s' : `${(ms! / 1000).toFixed(1)} s`;
  return (
    <p>
      <strong>It works.</strong> {name} answered “{result.answer}” in {seconds(result.whole_ms)},
      first word after {seconds(result.first_word_ms)}.
    </p>
  );
}
