// The console's own name: other programs on this machine get nothing of its session.
import assert from 'node:assert/strict';
import http from 'node:http';

// stranger is a program of this machine, such as what an agent serves. heard is what each request brought.
async function stranger(answer) {
  const heard = [];
  const server = http.createServer((q, a) => {
    heard.push({ at: q.headers.host + q.url, cookie: q.headers.cookie ?? '' });
    a.setHeader('Content-Type', 'text/html');
    answer(q, a);
  });
  await new Promise((go) => server.listen(0, '127.0.0.1', go));
  return { heard, port: server.address().port, end: () => server.close() };
}

// No other name or port gets a cookie of the console, sets one there, or sends one of its forms.
export async function ownName(site) {
  const c = await site.context('mia');
  const kept = (await c.cookies()).filter((k) => k.name.startsWith('__Host-ebb'));
  const name = new URL(site.url).hostname;
  const port = new URL(site.url).port;
  assert(/^ebb-[a-z2-7]{16}\.localhost$/.test(name), name);
  assert.equal(kept.length, 2);
  for (const k of kept) assert.equal(k.domain, name);
  const s = await stranger((q, a) => {
    if (q.url === '/toss') a.setHeader('Set-Cookie', ['__Host-ebb-sess=x; Domain=localhost; Path=/; Secure', '__Host-ebb-act=x; Path=/; Secure', 'ebb-theme=dark; Domain=localhost; Path=/']);
    a.end(`<form method="post" action="${site.url}/signout"><button>x</button></form>`);
  });
  try {
    const p = await c.newPage();
    for (const host of ['127.0.0.1', 'localhost', 'ebb.localhost', 'other.localhost', `x.${name}`]) {
      await p.goto(`http://${host}:${s.port}/look`);
      await p.goto(`http://${host}:${s.port}/toss`);
      const posted = p.waitForResponse((r) => r.url() === site.url + '/signout');
      await p.getByRole('button').click();
      // A form from another site is sent without cookies, so it belongs to no session (401). The browser treats a name below the console's as the same site (403).
      assert.equal((await posted).status(), host.endsWith(name) ? 403 : 401, host);
      await p.goto(`http://${host}:${s.port}/back`);
    }
    assert(s.heard.length >= 15, `${s.heard.length} requests`);
    for (const h of s.heard) assert(!kept.some((k) => h.cookie.includes(k.value)), `${h.at} got ${h.cookie}`);
    // For the browser, these cookies belong to no other name, and no cookie from another name
    // is here.
    for (const k of await c.cookies(site.url)) assert(k.domain === name && k.value !== 'x' && k.value !== 'dark', JSON.stringify(k));
    assert.equal((await p.goto(site.url + '/queue')).status(), 200);
    assert.equal(await p.evaluate(() => document.documentElement.dataset.theme), undefined);
    // At the address of the API people are told, and get no cookie.
    const told = await p.goto(`http://127.0.0.1:${port}/queue`);
    assert.equal(told.status(), 421);
    assert((await p.textContent('main')).includes('ebb console'));
    assert(!(await p.content()).includes(name));
    assert.equal((await c.cookies(`http://127.0.0.1:${port}`)).filter((k) => k.name.startsWith('__Host-ebb') && k.value !== 'x').length, 0);
    // The name must be secret: a site that knows it can lead a browser to this name with a port of its own, and receives the cookies.
    await p.goto(`http://${name}:${s.port}/known`);
    assert(kept.some((k) => s.heard.at(-1).cookie.includes(k.value) || s.heard.at(-2).cookie.includes(k.value)), 'cookies have ports by now: the name need not be secret');
  } finally {
    s.end();
    await c.close();
  }
}
