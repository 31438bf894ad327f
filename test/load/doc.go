// Package load tests the program tare load from outside. Hostile servers break protocols,
// never end or never begin: each run must end in its time and in little memory. Real
// servers (nginx, HAProxy, lighttpd, Node.js) count in their logs what tare reports.
package load
