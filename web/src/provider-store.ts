// The configured providers, fetched once and again when their commands may have changed.
import { signal } from '@preact/signals';
import { get, hasErrorCode, needsToken } from './api';
import type { Provider } from './api-types';

const RETRY_MS = 1000;

export const providers = signal<{ all: Provider[]; defaultId: string | null }>({
  all: [],
  defaultId: null,
});

export async function fetchProviders(): Promise<void> {
  try {
    const response = await get<{ providers: Provider[]; default: string | null }>('/providers');
    providers.value = { all: response.providers, defaultId: response.default };
  } catch (error) {
    if (!needsToken.value && hasErrorCode(error, 'unreachable')) {
      setTimeout(() => void fetchProviders(), RETRY_MS);
    }
  }
}
