// Package session identifies the person behind a request to the console.
//
// A browser holds two cookies of a session (cookies.go). Sessions.Visit reads the session from the
// database and returns a Visit: the person, reduced to the roles that the configuration still
// grants, and the session itself (sessions.go). The console's other packages take a Visit and never
// read the cookies of a session themselves. sessions.go also lists the roles that may read each
// kind of list.
package session
