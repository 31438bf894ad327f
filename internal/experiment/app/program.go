package app

import (
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
)

// Program runs a service in place of the configurable one. It is a command of
// tare-agent with the flags --listen, --admin, --token-file and --response-size. Of the
// fields of a service it supports responseSize. The main program passes all programs in.
type Program struct {
	Name string // in the field program of a service, and of the command
	Text string // meaning, for the schema and the reference page
	// Routes are the paths that it serves. [EveryRoute] requests all of them.
	Routes []ProgramRoute
	// Beside is a second process of each replica. Nil means that there is none.
	Beside *Beside
	// Timed programs serve their [StageTime] list as JSON at [StagesPath] of the admin address.
	Timed bool
}

// ProgramRoute is a path of a [Program].
type ProgramRoute struct {
	Path string
	// Alone routes do not call the process beside the program.
	Alone bool
}

// Beside is a process beside a program, which calls it. Its usage belongs to the data plane.
type Beside struct {
	Container string
	Command   string   // of tare-agent
	Ports     []string // flags of both processes for its addresses, with /stats and /readyz at the first
	Sockets   []string // flags of both processes for the paths of its Unix sockets
}

// SocketName is the name of the socket whose path the flag has.
func SocketName(flag string) string { return strings.TrimSuffix(flag, "-socket") + ".sock" }

// StagesPath is the path of the stage times of a [Program].
const StagesPath = "/stages"

// StageTime is one counter of times that a service measures itself: their number and their sum.
type StageTime struct {
	Route   string  `json:"route"` // the path
	Stage   string  `json:"stage"` // "total": the whole request; "calc": the part that the routes do differently
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"`
}

// EveryRoute is the level of the factor route for all routes of a [Program].
const EveryRoute = "/*"

// RoutePaths lists the paths of a level of the factor route: several have commas between.
func (p Program) RoutePaths(level string) []string {
	if level != EveryRoute {
		return strings.Split(level, ",")
	}
	return printable.Texts(p.Routes, func(r ProgramRoute) string { return r.Path })
}

// CallsBeside reports whether a request for path calls the process beside the program.
func (p Program) CallsBeside(path string) bool {
	return p.Beside != nil && slices.Contains(p.Routes, ProgramRoute{Path: path})
}

// Programs are the programs that services may have.
type Programs []Program

// Of returns the program of a service.
func (ps Programs) Of(s Service) (Program, bool) {
	i := slices.IndexFunc(ps, func(p Program) bool { return p.Name == s.Program })
	if s.Program == "" || i < 0 {
		return Program{}, false
	}
	return ps[i], true
}

// Names lists the names of the programs.
func (ps Programs) Names() []string {
	return printable.Texts(ps, func(p Program) string { return p.Name })
}

// Containers lists the containers beside the programs' own.
func (ps Programs) Containers() []string {
	var names []string
	for _, p := range ps {
		if p.Beside != nil {
			names = append(names, p.Beside.Container)
		}
	}
	return names
}
