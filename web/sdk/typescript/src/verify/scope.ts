import { Malformed } from './json.js'

// The grammar of scopes, as in the Go package scopes: provider:resource:action, resource segments separated by "/",
// "*" is one segment or any action, "**" is the rest of the path.

const PROVIDER = /^[a-z][a-z0-9-]{0,31}$/
const SEGMENT = /^(?:\*|[A-Za-z0-9._~@+=,-]{1,64})$/
const ACTION = /^(?:\*|[a-z][a-z0-9_.-]{0,31})$/

interface Scope {
  provider: string
  segments: string[]
  action: string
}

function parse(text: string): Scope {
  const [provider = '', resource = '', action = '', ...more] = text.split(':')
  const segments = resource.split('/')
  const good =
    text.length <= 512 &&
    more.length === 0 &&
    PROVIDER.test(provider) &&
    ACTION.test(action) &&
    segments.length <= 16 &&
    segments.every((s, i) => (SEGMENT.test(s) && s !== '.' && s !== '..') || (s === '**' && i === segments.length - 1))
  if (!good) throw new Malformed('not a scope')
  return { provider, segments, action }
}

/** parseScopes parses scopes that are separated by one space; "" has none. */
export function parseScopes(text: string): Scope[] {
  const list = text === '' ? [] : text.split(' ')
  if (list.length > 64) throw new Malformed('too many scopes')
  return list.map(parse)
}

function coversOne(mine: Scope, other: Scope): boolean {
  if (mine.provider !== other.provider || (mine.action !== '*' && mine.action !== other.action)) return false
  for (let i = 0; i < mine.segments.length; i++) {
    const a = mine.segments[i]
    const b = other.segments[i]
    if (b === undefined) return false
    if (a === '**') return true
    if (b === '**' || (a !== '*' && a !== b)) return false
  }
  return mine.segments.length === other.segments.length
}

/** covers reports whether every needed scope is covered by one of the granted scopes. */
export function covers(granted: string, needed: string): boolean {
  const have = parseScopes(granted)
  return parseScopes(needed).every((n) => have.some((h) => coversOne(h, n)))
}
