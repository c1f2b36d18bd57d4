/* What a driver and a runtime of CUDA say of one GPU, whose memory is the CPU's. A torch that is built for CUDA asks
   them even of fake tensors. Whatever else it may call is added below: functions that do nothing, and succeed. */
#include <stdlib.h>
#include <string.h>

int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaDriverGetVersion(int *version) { *version = 13000; return 0; }
int cudaRuntimeGetVersion(int *version) { *version = 13000; return 0; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }
int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; return 0; }
int cudaMemGetInfo(size_t *free, size_t *total) { *free = *total = (size_t)80 << 30; return 0; }
int cudaMalloc(void **memory, size_t size) { *memory = malloc(size); return *memory == NULL; }
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) { memcpy(to, from, size); return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = 1; return 0; }
