// Whether there are dead deliveries: checked rarely, and after every change in this page.
import { signal } from '@preact/signals';
import { get } from './api';
import type { Delivery } from './api-types';

const CHECK_MS = 120_000;

export const hasDeadDeliveries = signal(false);

export async function checkDeadDeliveries(): Promise<void> {
  const path = '/outbox?status=dead&limit=1';
  const page = await get<{ deliveries: Delivery[] }>(path).catch(() => null);
  if (page) hasDeadDeliveries.value = page.deliveries.length > 0;
}

let timer: ReturnType<typeof setInterval> | undefined;

/** Called again after a login. */
export function startDeadDeliveryCheck(): void {
  void checkDeadDeliveries();
  clearInterval(timer);
  timer = setInterval(() => document.hidden || void checkDeadDeliveries(), CHECK_MS);
}
