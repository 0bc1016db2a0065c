// Package autorun finds the files of a work directory that make programs run
// without being asked: when a user enters the directory, opens it in an editor,
// runs git status or pushes it to CI. A sandboxed command must not leave such a
// file behind for the user to run outside of the sandbox.
//
// The files are listed by name, each with its reason. A scan finds them in a directory, with those
// that they refer to by symbolic links, hard links or settings, and the files of git directories.
// Begin makes the found ones read-only in the sandbox. End reports the files that have changed, and
// with Protect sets new ones aside.
package autorun
