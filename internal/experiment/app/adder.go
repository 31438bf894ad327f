package app

import "strings"

// AdderRoute is one route of [Adder] to the function.
type AdderRoute struct {
	Path string
	// Server and Client are the label route of server_response_time and of
	// client_response_time, as the study's dashboards have them.
	Server, Client string
}

// AdderRoutes lists the study's routes, and the one it has not: REST over a Unix socket.
func AdderRoutes() []AdderRoute {
	return []AdderRoute{
		{"/adder", "adder", "adder-local"},
		{"/adder-with-sidecar", "adder-with-sidecar", "adder-sidecar"},
		{"/adder-with-sidecar-socket", "adder-with-sidecar-socket", "adder-sidecar-socket"},
		{"/adder-with-sidecar-grpc", "adder-with-grpc-sidecar", "adder-sidecar-grpc"},
		{"/adder-with-sidecar-grpc-socket", "adder-with-grpc-sidecar-socket", "adder-sidecar-grpc-socket"},
	}
}

// EveryRoute stands for all the routes that an [Adder] has.
const EveryRoute = "/*"

// RoutePaths are the paths that a level of the factor route stands for: several have commas between.
func RoutePaths(level string) []string {
	if level != EveryRoute {
		return strings.Split(level, ",")
	}
	var paths []string
	for _, r := range AdderRoutes() {
		paths = append(paths, r.Path)
	}
	return paths
}
