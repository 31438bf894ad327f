package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// searchAB checks the options for two programs. Of servers without a rate it finds one, and the slices that suit the answers.
func (p *Program) searchAB(ctx context.Context, o *AB) error {
	const usage = "such as: tare ab -- ./server-old --port {port} -- ./server-new --port {port}"
	switch {
	case len(o.Commands) != 2 || len(o.Commands[0]) == 0 || len(o.Commands[1]) == 0:
		return hint.Usage(fmt.Errorf("%d programs, each after a --: two are compared", len(o.Commands)), usage)
	case o.File != "" || len(o.Mesh)+len(o.Programs)+len(o.Versions) > 0 || o.A != "" || o.B != "":
		return hint.Usage(errors.New("two programs are compared without a mesh and without FILE"), usage)
	case o.Platform != "" && o.Platform != "local":
		return hint.Usage(fmt.Errorf("two programs are compared on this machine, and not on %s", o.Platform), "remove --platform")
	}
	if o.ends() {
		return p.tryAB(ctx, o)
	}
	if len(o.Gates) == 0 {
		o.Gates = []string{DefaultProgramGate}
	}
	switch {
	case o.Prepare != "":
		return hint.Usage(errors.New("--prepare is for programs that end"), "remove it, or {port} and the flags of requests")
	case o.Rate != "":
		return nil
	}
	o.Rate = "1"
	study, err := p.abOfCommands(ctx, *o, experiment.DecideFrom())
	if err != nil {
		return err
	}
	found, err := searchRate(ctx, study, newDir(study.Experiment.Metadata.Name, time.Now().UTC()), 0)
	if err != nil {
		return err
	}
	o.Rate = strconv.FormatFloat(found.rate, 'f', -1, 64)
	switch length, ok := sliceFor(found.slowest); {
	case !ok:
		o.fixed = append(o.fixed, "order="+experiment.OrderBalanced)
	case length != sliceLengths[0]:
		o.fixed = append(o.fixed, "slices.length="+length.String(), "slices.guard="+(length/10).String())
	}
	return nil
}

func (p *Program) abOfCommands(ctx context.Context, o AB, blocks int) (*Study, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	names := differingNames(o.Commands[0], o.Commands[1])
	if names[0] == names[1] || slices.ContainsFunc(names[:], func(name string) bool { return name == "" || slices.Contains(app.Names(), name) }) {
		names = [2]string{programName(o.Commands[0], "program") + "-a", programName(o.Commands[1], "program") + "-b"}
	}
	expanded := programWords
	if o.ends() {
		expanded = literals
	}
	applications := map[string]any{}
	for i, name := range names {
		words, err := expanded(o.Commands[i])
		if err != nil {
			return nil, err
		}
		applications[name] = map[string]any{"command": words, "dir": dir, "ready": o.Ready}
	}
	e := map[string]any{
		"metadata": map[string]any{"name": label("ab-" + names[1])}, "applications": applications,
		"baseline": map[string]any{experiment.ApplicationFactor: names[0]}, "order": experiment.OrderInterleaved,
	}
	if o.ends() {
		if e["batch"], err = o.batch(); err != nil {
			return nil, err
		}
		e["factors"], e["phases"] = map[string]any{"application": names}, map[string]any{"measure": o.measure.String()}
		return p.decodeAB(ctx, o, e, blocks, "applications", names)
	}
	factors := map[string]any{"application": names, "mesh": []string{"none"}, "rate": []json.RawMessage{json.RawMessage(o.Rate)}, "connections": []int{abConnections}}
	requests, route, err := o.load(app.HTTP1)
	if err != nil {
		return nil, err
	}
	if route != nil {
		factors["route"] = route
	}
	e["factors"], e["load"], e["phases"] = factors, requests, map[string]any{"warmup": "1s", "measure": "3s", "drain": "1s"}
	return p.decodeAB(ctx, o, e, blocks, "applications", names)
}

// abConnections of the load of two programs: the same as of tare weigh.
const abConnections = 4
