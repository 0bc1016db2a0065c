import { EbbError } from '../errors.js'
import type { Principal } from '../principal.js'
import type { Event } from './revoked.js'

/** Page is one response of the revocation feed. */
export interface Page {
  events: Event[]
  cursor: string
  full: boolean // there may be more events now
  maxAgeSeconds: number // ebb's limit for the staleness; 0 = none
}

/** CursorUnknown is thrown for a cursor that ebb does not know any more. */
export class CursorUnknown extends Error {}

const EVENTS = 1000
const BODY = 1 << 20

/** nextPage returns the events after cursor; "" = from the oldest kept. It waits for the first event. */
export async function nextPage(p: Principal, resource: string, cursor: string, waitSeconds: number, signal: AbortSignal): Promise<Page> {
  const query: Record<string, string> = { limit: String(EVENTS) }
  if (cursor !== '') query['cursor'] = cursor
  if (waitSeconds >= 1) query['wait_seconds'] = String(Math.floor(waitSeconds))
  let a: Record<string, unknown>
  try {
    a = await p.call({ method: 'GET', path: '/v1/revocations', query, waitSeconds, signal, limit: BODY })
  } catch (error) {
    if (cursor !== '' && error instanceof EbbError && (error.code === 'invalid_request' || error.status === 410)) throw new CursorUnknown('the cursor is unknown', { cause: error })
    throw error
  }
  const { events, cursor: next, max_age_seconds: age = 0, audiences = [] } = a
  if (!Array.isArray(events) || typeof next !== 'string' || typeof age !== 'number' || !Array.isArray(audiences)) throw new Error('the answer is not a page of the revocation feed of ebb')
  if (audiences.length > 0 && !audiences.includes(resource)) {
    throw new Error(`the feed of this principal does not cover tokens for ${resource}; add it to the audiences of the principal`)
  }
  return { events: events.map(event), cursor: next, full: events.length >= EVENTS, maxAgeSeconds: Math.max(0, Math.min(age, 3600)) }
}

function moment(text: unknown): number {
  return typeof text === 'string' && /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) / 1000 : NaN
}

function event(value: unknown): Event {
  const { task_id: task = '', lease_id: lease = '', at, until } = (value ?? {}) as Record<string, unknown>
  const end = moment(until)
  if (typeof task !== 'string' || typeof lease !== 'string' || !(end > 0)) throw new Error('an event of the feed is malformed')
  return { id: lease || task, at: moment(at), until: end }
}
