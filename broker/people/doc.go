// Package people holds the data of people who use the console: browser sessions, passkeys and
// notification preferences. A broker.Principal identifies the person; a kind of web/signin
// authenticates the person.
//
//	session.go  Session; Store and Reader, the database interface
//	passkey.go  Passkey, PasskeyStore, PasskeyNames
//	push.go     Push, PushStore: browsers that get notifications
//	name.go     CheckName, Same: valid names, and equality of persons
//	reach.go    Preferences, Absence, Reach, ReachStore: notification preferences and addresses
//	views.go    Views: the filters that a person has saved on lists
package people
