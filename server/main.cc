// phasord.
#include "server/phasord.h"

int main(int argc, char** argv) { return phasor::server::RunPhasord(argc, argv); }
