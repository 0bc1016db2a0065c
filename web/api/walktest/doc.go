// Package walktest walks evidence that answers a challenge through a whole ebb, over
// HTTP and by the client that sandboxes use: challenge, answer, task token, credential;
// and what must not get that far. The suite of attesttest judges an attestor by itself;
// this is what its evidence is worth in the end.
//
//	walktest.go Run, Kind and Sandbox
//	ebb.go      an ebb with one such attestor, and who calls it
package walktest
