/* The device that the calling host thread has chosen. */
#ifndef S4_EMULATION_CURRENT_DEVICE_H
#define S4_EMULATION_CURRENT_DEVICE_H

namespace s4_emulation
{

int current_device();

} // namespace s4_emulation
#endif
