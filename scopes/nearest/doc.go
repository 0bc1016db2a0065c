// Package nearest finds the word that a typo stands for, for errors that ask "did you mean".
package nearest
