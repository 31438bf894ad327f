// Package hostile runs tare load against servers that break protocols, never end or never
// begin. Each run must end in its time and in little memory.
package hostile
