package people

import "time"

// Session is one browser in which a person has signed in. The two values that the
// browser holds are not kept, only their hashes: who reads the database cannot act.
type Session struct {
	ID     string // hex SHA-256 of the cookie that reads
	Act    string // hex SHA-256 of the cookie that is needed to change something
	Person string // id of the principal
	Name   string // what the person is called; from the identity provider or the configuration
	Roles  []string
	Groups []string
	Also   []string // other names of the person
	Method string   // kind of web/signin
	// Purpose is the plan of break-glass for which the person proved it anew, by its id; "" =
	// for nothing else than to sign in.
	Purpose string
	ACR     string // how strongly, in the identity provider's words (OpenID Connect Core section 2)
	Agent   string // what the browser calls itself: at most 200 code points

	AuthAt    time.Time // the person proved who they are
	GroupsAt  time.Time // Groups were true
	CreatedAt time.Time
	SeenAt    time.Time // last used, to the minute
	ExpiresAt time.Time // at the latest
}
