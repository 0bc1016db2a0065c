// Strict JSON (RFC 8259, I-JSON RFC 7493). JSON.parse accepts duplicate names, of which the last one counts, and lone
// surrogates. Objects become Maps, so that no name of a token is a property of an object.

/** A number keeps its text, because its length is limited. */
export class JsonNumber {
  constructor(readonly text: string) {}
}

export type JsonObject = Map<string, JsonValue>
export type JsonValue = string | boolean | null | JsonNumber | JsonValue[] | JsonObject

export interface Limits {
  /** Largest depth of nested objects and arrays, the outermost included. */
  depth: number
  /** Largest number of members in all objects together. */
  members: number
}

/** Malformed is thrown for every text and token that is refused. Its message contains nothing of the text. */
export class Malformed extends Error {}

/** parseObject returns exactly one JSON object. It throws Malformed for everything else. */
export function parseObject(bytes: Uint8Array, limits: Limits): JsonObject {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new Malformed('not UTF-8')
  }
  const parser = new Parser(text, limits)
  const value = parser.whole()
  if (!(value instanceof Map)) throw new Malformed('not a JSON object')
  return value
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
// All characters except quotes, backslashes and control characters; the decoder has refused unescaped lone surrogates.
const PLAIN = /[^"\\\u0000-\u001f]*/y
const SPACE = /[ \t\r\n]*/y
const ESCAPES: Record<string, string> = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

class Parser {
  private at = 0
  private depth = 0
  private members = 0

  constructor(
    private readonly text: string,
    private readonly limits: Limits,
  ) {}

  whole(): JsonValue {
    const value = this.value()
    this.take(SPACE)
    if (this.at !== this.text.length) throw new Malformed('text after the JSON value')
    return value
  }

  private value(): JsonValue {
    this.take(SPACE)
    switch (this.text[this.at]) {
      case '{':
        return this.nested(() => this.object())
      case '[':
        return this.nested(() => this.array())
      case '"':
        return this.string()
    }
    for (const [word, value] of [['true', true], ['false', false], ['null', null]] as const) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length
        return value
      }
    }
    const number = this.take(NUMBER)
    if (number === '') throw new Malformed('not a JSON value')
    return new JsonNumber(number)
  }

  private nested<T>(read: () => T): T {
    if (++this.depth > this.limits.depth) throw new Malformed('nested too deeply')
    this.at++
    const value = read()
    this.depth--
    return value
  }

  private object(): JsonObject {
    const members: JsonObject = new Map()
    if (this.ends('}')) return members
    for (;;) {
      this.take(SPACE)
      if (this.text[this.at] !== '"') throw new Malformed('a name is not a string')
      const name = this.string()
      this.take(SPACE)
      this.expect(':')
      if (++this.members > this.limits.members) throw new Malformed('too many members')
      if (members.has(name)) throw new Malformed('a name occurs twice')
      members.set(name, this.value())
      if (this.ends('}')) return members
      this.expect(',')
    }
  }

  private array(): JsonValue[] {
    const items: JsonValue[] = []
    if (this.ends(']')) return items
    for (;;) {
      items.push(this.value())
      if (this.ends(']')) return items
      this.expect(',')
    }
  }

  private string(): string {
    let out = ''
    this.at++
    for (;;) {
      out += this.take(PLAIN)
      const c = this.text[this.at++]
      if (c === '"') break
      if (c !== '\\') throw new Malformed('a string does not end')
      out += this.escape()
    }
    if (/\p{Surrogate}/u.test(out)) throw new Malformed('a lone surrogate')
    return out
  }

  private escape(): string {
    const c = this.text[this.at++] ?? ''
    if (c !== 'u') {
      const plain = Object.hasOwn(ESCAPES, c) ? ESCAPES[c] : undefined
      if (plain === undefined) throw new Malformed('an unknown escape')
      return plain
    }
    const digits = this.text.slice(this.at, this.at + 4)
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new Malformed('an unknown escape')
    this.at += 4
    return String.fromCharCode(parseInt(digits, 16))
  }

  private ends(c: string): boolean {
    this.take(SPACE)
    if (this.text[this.at] !== c) return false
    this.at++
    return true
  }

  private expect(c: string): void {
    if (this.text[this.at++] !== c) throw new Malformed('not JSON')
  }

  private take(pattern: RegExp): string {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)?.[0] ?? ''
    this.at += found.length
    return found
  }
}

/** within reports whether a value keeps limits of its own. */
export function within(value: JsonValue, limits: Limits): boolean {
  let members = 0
  const fits = (v: JsonValue, depth: number): boolean => {
    if (!(v instanceof Map) && !Array.isArray(v)) return true
    if (depth > limits.depth) return false
    if (v instanceof Map) members += v.size
    for (const inner of v.values()) if (!fits(inner, depth + 1)) return false
    return true
  }
  return fits(value, 1) && members <= limits.members
}

/** lookAlike reports whether a name differs only in letter case from a registered name or from another member. */
export function lookAlike(object: JsonObject, registered: readonly string[]): boolean {
  const known = new Map(registered.map((name) => [fold(name), name]))
  const seen = new Set<string>()
  for (const name of object.keys()) {
    const folded = fold(name)
    if (seen.has(folded)) return true
    seen.add(folded)
    const real = known.get(folded)
    if (real !== undefined && real !== name) return true
  }
  return false
}

// fold is Unicode's simple case folding: the long s equals s, and the Kelvin sign equals k.
function fold(name: string): string {
  return Array.from(name, (c) => {
    const upper = c.toUpperCase()
    const lower = (upper.length === c.length ? upper : c).toLowerCase()
    return lower.length === c.length ? lower : c
  }).join('')
}

/** plain reports whether a text has no control, format and bidi characters, and no line separators. */
export function plain(text: string): boolean {
  return !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text)
}

/** decodeBase64url returns undefined for a text that is not strict base64url without padding. */
export function decodeBase64url(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return undefined
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0))
  return encodeBase64url(bytes) === text ? bytes : undefined // the unused bits of the last character are zero
}

export function encodeBase64url(bytes: Uint8Array): string {
  let binary = ''
  for (const b of bytes) binary += String.fromCharCode(b)
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

export async function sha256(text: string): Promise<string> {
  return encodeBase64url(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))))
}
