// Package config reads what a server serves from files: pools, who may ask, and a TLS
// certificate. It reads them again when they change.
//
// An invalid file is rejected with its name and the line; the old settings stay. A change
// is applied only when two looks in a row find it, because a file that is still being written
// may be valid without the pools at its end. A pipe can be read only once: [Start] reads
// it, and [Watch] leaves it alone.
//
// A program makes a [Source] of each file, calls [Start] before it serves, and
// [Watch] while it does:
//
//	sources := []*config.Source{
//		config.PoolsFrom("config", "pools.yaml", warn, setPools),
//		config.AuthFrom("auth", "auth.yaml", warn, setAuth),
//	}
//	if err := config.Start(ctx, sources, warn); err != nil {
//		return err
//	}
//	config.Watch(ctx, sources, hangups, server.Reloaded)
package config
