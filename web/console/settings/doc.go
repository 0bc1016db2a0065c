// Package settings shows people their own settings on the console.
//
// settings.go draws the page, and stores theme and time zone in cookies. notifications.go stores when
// the person is notified. push.go adds and removes browsers that get notifications. absence.go names
// a delegate of a person who is away. sessions.go lists and ends their sessions. passkeys.go adds,
// renames and removes their passkeys, which needs a sign-in of the last 10 minutes. pages.go lists the
// routes and the calls of the core.
package settings
