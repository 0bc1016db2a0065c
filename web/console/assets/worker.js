// The service worker. It shows notifications and opens their pages, and does nothing else.
"use strict";
self.addEventListener("push", (e) => {
  const { title, body, tag, path } = e.data.json();
  e.waitUntil(self.registration.showNotification(title, { body, tag, data: path }));
});
self.addEventListener("notificationclick", (e) => {
  e.notification.close();
  // A page of this console only: the path is added to the scope.
  const url = self.registration.scope + e.notification.data.replace(/^\/+/, "");
  e.waitUntil((async () => {
    const open = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const page = open.find((c) => c.url === url);
    await (page ? page.focus() : self.clients.openWindow(url));
  })());
});
