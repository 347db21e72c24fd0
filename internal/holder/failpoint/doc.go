// Package failpoint names the places at which a test kills the program. In a program that is
// built without the tag failpoint, a place costs nothing.
package failpoint
