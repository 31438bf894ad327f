// Package epoll is the engine's worker on Linux: one OS thread with its own poller,
// connections, share of the schedule and histograms. Workers share nothing while load
// runs, so that a send waits for no lock.
package epoll
