//go:build !linux

package service

import "github.com/tare-mesh/tare/internal/base/wait"

var sleep = wait.For
