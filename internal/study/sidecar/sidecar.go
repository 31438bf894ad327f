// Package sidecar describes the program of the study "to sidecar or not". The study
// calls one function in five ways: in process, and in a sidecar over REST and gRPC,
// each over loopback TCP and a Unix socket. Package adder is the program.
package sidecar

import "github.com/tare-mesh/tare/internal/experiment/app"

// Paths of the server's routes. The study has all but [RESTSocket].
const (
	InProcess  = "/adder"
	REST       = "/adder-with-sidecar"
	RESTSocket = "/adder-with-sidecar-socket"
	GRPC       = "/adder-with-sidecar-grpc"
	GRPCSocket = "/adder-with-sidecar-grpc-socket"
)

// Commands of tare-agent, and their flags for the addresses of the function.
const (
	ServerCommand  = "adder"
	SidecarCommand = "sidecar"

	RESTFlag       = "rest"
	RESTSocketFlag = "rest-socket"
	GRPCFlag       = "grpc"
	GRPCSocketFlag = "grpc-socket"
)

// Program is the server with its sidecar.
func Program() app.Program {
	return app.Program{
		Name: ServerCommand, Text: "the sidecar study's server",
		Routes: []app.ProgramRoute{{Path: InProcess, Alone: true}, {Path: REST}, {Path: RESTSocket}, {Path: GRPC}, {Path: GRPCSocket}},
		Beside: &app.Beside{Container: "adder", Command: SidecarCommand, Ports: []string{RESTFlag, GRPCFlag}, Sockets: []string{RESTSocketFlag, GRPCSocketFlag}},
		Timed:  true,
	}
}
