// Package session carries out the use cases of tare, between the command line and the runner. The steps go in one
// direction, and each has a file:
//
//   - parse.go: bytes to an experiment
//   - resolve.go, references.go: what the file refers to: definitions of meshes, objects, requests, seed, order
//   - validate.go: the mistakes of the file
//   - expand.go: the plan of the experiment
//   - open.go: generators, platform, results directory
//   - run.go: the trials
//
// A use case has a file of its own if it makes an experiment (ab.go, weigh.go, aa.go) or reads earlier runs (times.go,
// detect.go, replay.go). A session has no flags and prints nothing: options come as structs, and lines for the user go to
// [Program].Note.
package session
