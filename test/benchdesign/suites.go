package main

import (
	"github.com/tare-mesh/tare/internal/metric"
)

// suite is an experiment, its designs and the comparisons to print.
type suite struct {
	settings    []string
	designs     []design
	comparisons []comparison
	sides       []side // whose headline metrics are compared too
}

// design is a way to run the experiment. The first of a suite is the standard that others are compared with.
type design struct {
	name     string
	settings []string
}

// comparison is a difference in the CPU of a request. Of both sides it takes the logarithm of the ratio if
// relative.
type comparison struct {
	side
	name, metric string
	relative     bool
	share        float64 // required width of the interval, as a share of the first design's, 0 for none
	design       int     // that share is required of, 0 for all but the first
}

// side names a treatment and its baseline.
type side struct{ name, treatment, baseline string }

const (
	dataCPU  = metric.CPUPerRequest + "/data"
	totalCPU = metric.CPUPerRequest + "/total"
	appCPU   = metric.CPUPerRequest + "/app"
	loadCPU  = metric.CPUPerRequest + "/load"
)

var (
	envoyAgainstItself = side{"A against A", "envoy-control", "envoy"}
	meshAgainstMesh    = side{"mesh against mesh", "envoy-plaintext", "envoy"}
	meshAgainstNone    = side{"mesh against none", "envoy", "none"}
	noneAgainstNone    = side{"none against none", "none-control", "none"}
)

const (
	oneAfterAnother = "phases={warmup: 1s, measure: 4s, drain: 1s}"
	shortBlocks     = "phases={warmup: 500ms, measure: 2s, drain: 1s}"
	// For mesh against none, where the noise is between deployments and in the machine.
	noneBlocks = "phases={warmup: 200ms, measure: 1s, drain: 500ms}"
	// For like against like, where the noise is between slices.
	likeBlocks = "phases={warmup: 300ms, measure: 2400ms, drain: 500ms}"
)

// suites are compared block by block.
var suites = map[string]suite{
	"designs": {
		settings: []string{"factors={mesh: [none, envoy, envoy-plaintext], rate: [1000], connections: [16]}", "controlAll=true"},
		designs: []design{
			{name: "one after another", settings: []string{"order=random", oneAfterAnother}},
			{name: "interleaved, 2.4 s", settings: []string{"order=interleaved", likeBlocks}},
			{name: "interleaved, 1 s", settings: []string{"order=interleaved", noneBlocks}},
		},
		comparisons: []comparison{
			{side: envoyAgainstItself, name: "A against A, data plane", metric: dataCPU, relative: true, share: 1 / 4.0, design: 1},
			{side: meshAgainstMesh, name: "mesh against mesh, data plane", metric: dataCPU, relative: true, share: 1 / 3.0, design: 1},
			{side: meshAgainstNone, name: "mesh against none, data plane", metric: dataCPU, share: 1 / 2.0, design: 2},
			{side: meshAgainstNone, name: "mesh against none, total", metric: totalCPU, share: 1 / 2.0, design: 2},
			{side: noneAgainstNone, name: "none against none, total", metric: totalCPU, relative: true},
		},
		sides: []side{envoyAgainstItself, meshAgainstMesh, meshAgainstNone},
	},
}
