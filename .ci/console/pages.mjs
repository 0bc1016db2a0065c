// All pages, with the people who look at each. A path that ends in a function is found by
// following the first link that fits on the page before it.
const first = (from, pattern) => async (page, url) => {
  const start = typeof from === 'function' ? await from(page, url) : from;
  await page.goto(url + start);
  const hrefs = await page.locator('main a[href]').evaluateAll((all) => all.map((a) => a.getAttribute('href')));
  const found = hrefs.find((h) => pattern.test(h));
  if (!found) throw new Error(`${start}: no link fits ${pattern}; there are ${hrefs.join(' ')}`);
  return found;
};

export const pages = [
  { name: 'signin', who: null, path: '/signin' },
  { name: 'queue', who: 'mia', path: '/queue' },
  { name: 'request', who: 'mia', path: first('/queue', /^\/requests\/req_/) },
  { name: 'requests', who: 'eve', path: '/requests' },
  { name: 'batch', who: 'mia', path: first('/queue', /^\/batch\?/) },
  { name: 'insights', who: 'eve', path: '/insights' },
  { name: 'insights-30d', who: 'eve', path: '/insights?window=30d' },
  { name: 'closed', who: 'eve', path: first('/tasks?state=closed', /^\/tasks\/tsk_/) },
  { name: 'tasks', who: 'eve', path: '/tasks' },
  { name: 'task', who: 'eve', path: first('/tasks', /^\/tasks\/tsk_/) },
  { name: 'credentials', who: 'eve', path: '/credentials' },
  { name: 'credential', who: 'eve', path: first('/credentials', /^\/credentials\/lse_/) },
  { name: 'operator', who: 'ola', path: first('/credentials?state=revoking', /^\/credentials\/lse_/) },
  { name: 'sandbox', who: 'eve', path: first(first('/tasks', /^\/tasks\/tsk_/), /^\/sandboxes\/sbx_/) },
  { name: 'audit', who: 'eve', path: '/audit' },
  { name: 'entry', who: 'eve', path: first('/audit', /^\/audit\/[^/]+\/\d+$/) },
  { name: 'transcripts', who: 'eve', path: '/transcripts' },
  { name: 'transcripts-none', who: 'eve', path: '/transcripts?task=none' },
  ...[['transcript', 3], ['transcript-withheld', 2], ['transcript-hostile', 1], ['transcript-begun', 0]].map(([name, nth]) => ({ name, who: 'eve', path: async (page, url) => {
    await page.goto(`${url}/transcripts`);
    return page.locator('main td a[href^="/transcripts/trn_"]').nth(nth).getAttribute('href');
  } })),
  { name: 'entry-of-request', who: 'eve', path: first('/audit?kind=egress.completed', /^\/audit\/[^/]+\/\d+$/) },
  { name: 'chains', who: 'eve', path: '/audit/chains' },
  { name: 'policy', who: 'ola', path: '/policy' },
  { name: 'policy-ask', who: 'uma', path: async (page, url) => {
    await page.goto(url + '/policy');
    const draft = (await page.locator('main a[href^="/policy/drafts/"]').first().getAttribute('href')).split('/').pop();
    return `/policy?provider=code&resource=acme/web&action=write&minutes=60&draft=${draft}`;
  } },
  { name: 'draft', who: 'uma', path: first('/policy', /^\/policy\/drafts\/pol_/) },
  { name: 'replay', who: 'ola', path: async (page, url) => `${await first('/policy', /^\/policy\/drafts\/pol_/)(page, url)}/replay?days=1` },
  { name: 'draft-file', who: 'ola', path: first(first('/policy', /^\/policy\/drafts\/pol_/), /file\?name=/) },
  { name: 'breakglass', who: 'tom', path: '/break-glass' },
  { name: 'breakglass-one', who: 'eve', path: first('/break-glass', /^\/break-glass\/brk_/) },
  { name: 'settings', who: 'mia', path: '/settings' },
  { name: 'error', who: 'mia', path: '/nowhere' },
];
export { first };
